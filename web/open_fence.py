"""Reads on in a code fence that is not closed yet, without parsing again what came before. Any one thread."""

from __future__ import annotations

import re

from markdown_it.token import Token

# A carriage return at the very end may yet be half of a line break.
NEWLINE = re.compile(r"\r\n|\r(?=[^\n])|\n")


def open_fence(tokens: list[Token]) -> Token | None:
    """The fence that the last of these block tokens leave open; None also for one in a quotation.

    A quotation's lines carry marks of their own, which only the parser can take off.
    """
    for token in reversed(tokens):
        if token.nesting >= 0:
            is_open = token.type == "fence" and bool(token.meta.get("open"))
            quoted = any(each.type == "blockquote_open" for each in tokens)
            return token if is_open and not quoted else None
    return None


class OpenFence:
    """The lines of one open fence, from `position` in the reply's text on. `closed` once something ended it.

    A line is given out as soon as it is certain to be code: not while it may still become the closing fence.
    """

    def __init__(self, fence: Token, position: int) -> None:
        self.closed = False
        self._indent = int(fence.meta["indent"])
        self._block_indent = int(fence.meta["block_indent"])
        self._closing = re.compile(rf"{re.escape(fence.markup[0])}{{{len(fence.markup)},}}[ \t]*")
        self._marker = fence.markup[0]
        self._position = position
        self._within_line = False

    def read(self, text: str) -> str:
        """The code that `text`, longer than last time, adds."""
        parts: list[str] = []
        while not self.closed:
            newline = NEWLINE.search(text, self._position)
            end = newline.start() if newline else len(text)
            line = text[self._position : end]
            if not self._within_line:
                self.closed = self._ends(line, whole=newline is not None)
                if self.closed or (newline is None and self._undecided(line)):
                    break
                line = _without_indent(line, self._indent)
            if newline is None:
                parts.append(line.removesuffix("\r"))
                self._position = end - line.endswith("\r")
                self._within_line = True
                break
            parts.append(line + "\n")
            self._position = newline.end()
            self._within_line = False
        return "".join(parts).replace("\0", "\ufffd")

    def _undecided(self, line: str) -> bool:
        return not line.strip(" \t\r").strip(self._marker).strip(" \t")

    def _ends(self, line: str, *, whole: bool) -> bool:
        bare = line.lstrip(" \t")
        if not bare.strip("\r"):
            return False
        indent = _columns(line[: len(line) - len(bare)])
        if indent < self._block_indent:
            return True
        return whole and indent < self._block_indent + 4 and self._closing.fullmatch(bare) is not None


def _columns(space: str) -> int:
    columns = 0
    for character in space:
        columns += 4 - columns % 4 if character == "\t" else 1
    return columns


def _without_indent(line: str, indent: int) -> str:
    """`line` without up to `indent` columns of space; the rest of a tab cut in two stays as spaces."""
    columns = taken = 0
    while taken < len(line) and columns < indent and line[taken] in " \t":
        columns += 4 - columns % 4 if line[taken] == "\t" else 1
        taken += 1
    return " " * max(0, columns - indent) + line[taken:]
