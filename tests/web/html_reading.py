"""Reads rendered HTML back: its text, and whatever is not on this module's own list of what is safe."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_TAGS = """
p br hr h1 h2 h3 h4 h5 h6 strong em s blockquote ul ol li pre code span div a label input table thead tbody
tr th td
math mrow mi mn mo mtext mspace msub msup msubsup mfrac msqrt mroot mover munder munderover mmultiscripts
mprescripts none mtable mtr mtd mstyle mpadded menclose
"""
_ATTRIBUTES = """
class href title rel target start type disabled checked display stretchy fence separator form largeop
movablelimits minsize maxsize mathvariant accent accentunder linethickness displaystyle scriptlevel
columnalign notation width
"""
SAFE_TAGS = frozenset(_TAGS.split())
SAFE_ATTRIBUTES = frozenset(_ATTRIBUTES.split())
VOID_TAGS = {"br", "hr", "input"}


class Reader(HTMLParser):
    """The `text` of some HTML, its `tags`, `links` and `classes`, and what is wrong with it: `faults`."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[str] = []
        self.links: list[str] = []
        self.classes: set[str] = set()
        self.faults: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.faults += [f"{tag} is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID_TAGS:
            self._open.append(tag)
        if tag not in SAFE_TAGS:
            self.faults.append(tag)
        for name, value in attrs:
            self._take(tag, name, value or "")

    def _take(self, tag: str, name: str, value: str) -> None:
        if name not in SAFE_ATTRIBUTES or (name == "width" and tag != "mspace"):
            self.faults.append(f"{tag} {name}={value}")
        if name == "class":
            self.classes.update(value.split())
        if name == "href":
            self.links.append(value)
            if tag != "a" or not re.match(r"(?i)https?://[^/]|mailto:", value):
                self.faults.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"stray </{tag}>")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        self.faults.append(f"declaration {decl}")

    def handle_pi(self, data: str) -> None:
        self.faults.append(f"instruction {data}")
