"""The allowlist that every piece of rendered HTML passes last. Any thread.

The renderer already escapes the model's text; this list holds when the renderer is wrong.
"""

from __future__ import annotations

from functools import cache

import nh3
from pygments.token import STANDARD_TYPES

from web.highlighting import LANGUAGES

SCHEMES = frozenset({"http", "https", "mailto"})

_HTML = """
p br hr h1 h2 h3 h4 h5 h6 strong em s blockquote ul ol li pre code span div a label input
table thead tbody tr th td
"""
_MATHML = """
math mrow mi mn mo mtext mspace msub msup msubsup mfrac msqrt mroot mover munder munderover
mmultiscripts mprescripts none mtable mtr mtd mstyle mpadded menclose
"""
TAGS = frozenset((_HTML + _MATHML).split())

ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"},
    "ol": {"start"},
    "input": {"checked"},
    "math": {"display"},
    "mo": {
        "stretchy",
        "fence",
        "separator",
        "form",
        "largeop",
        "movablelimits",
        "accent",
        "minsize",
        "maxsize",
    },
    "mi": {"mathvariant"},
    "mover": {"accent"},
    "munder": {"accentunder"},
    "mfrac": {"linethickness"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"columnalign"},
    "mtd": {"columnalign"},
    "menclose": {"notation"},
}

# Spaces by name only: a free width would let a formula cover the page around it.
SPACES = {f"{width}em" for width in ("0.167", "0.222", "0.278", "0.333", "0.5", "1", "2", "-0.167")}

_ALIGNMENTS = {"align-left", "align-center", "align-right"}

CLASSES: dict[str, set[str]] = {
    "div": {"code", "code-head", "math", "table"},
    "span": {"code-lang", "image", "math", *(name for name in STANDARD_TYPES.values() if name)},
    "code": {"math-source", *(f"language-{name}" for name in LANGUAGES)},
    "ul": {"contains-task-list"},
    "ol": {"contains-task-list"},
    "li": {"task-list-item"},
    "input": {"task-list-item-checkbox"},
    "th": _ALIGNMENTS,
    "td": _ALIGNMENTS,
}


def sanitize(html: str) -> str:
    """`html` with nothing but the listed tags, attributes, classes and link schemes."""
    return _cleaner().clean(html)


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=TAGS,
        attributes=ATTRIBUTES,
        allowed_classes=CLASSES,
        tag_attribute_values={"mspace": {"width": SPACES}},
        set_tag_attribute_values={"a": {"target": "_blank"}, "input": {"type": "checkbox", "disabled": ""}},
        url_schemes=SCHEMES,
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
