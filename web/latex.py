"""Mathematics in model output: LaTeX source to MathML. Any thread.

What cannot be converted, or might take long, stays readable as its source.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape, unescape
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import Converter

MAX_LATEX_CHARS = 2_000
_MAX_BRACES = 40

# Definitions can grow without bound; links, classes and styles have no place in a formula.
_REFUSED = re.compile(
    r"\\(?:(?:re|provide)?newcommand|[gex]?def|let|DeclareMath[a-zA-Z]*|(?:re)?newenvironment"
    r"|href|unicode|class|style|cssId)(?![a-zA-Z])"
)


def formula(source: str, latex: str, *, display: bool) -> str:
    """`latex` as MathML in a `math` element, or `source` (with its delimiters) in `code`."""
    mathml = _mathml(latex.strip(), display)
    if mathml is None:
        return f'<code class="math-source">{escape(source, quote=False)}</code>'
    return mathml


@lru_cache(maxsize=256)
def _mathml(latex: str, display: bool) -> str | None:
    if not latex or len(latex) > MAX_LATEX_CHARS or _REFUSED.search(latex) or _braces(latex) > _MAX_BRACES:
        return None
    try:
        tree = Converter(display="block" if display else "inline").convert_to_element(_unnumbered(latex))
        _escape_once(tree)
        return tostring(tree, encoding="unicode")
    except Exception:  # the converter raises whatever a malformed formula leads it into
        return None


def _unnumbered(latex: str) -> str:
    # Every formula is converted alone: each would be number one.
    return latex.replace("{align}", "{align*}")


def _escape_once(tree: Element) -> None:
    # The converter writes symbols as character references and relies on not being escaped. Resolved here,
    # they and the formula's own text are escaped alike on the way out.
    for element in tree.iter():
        element.text = unescape(element.text) if element.text else None
        element.tail = None
        if "xmlns" in element.attrib:
            del element.attrib["xmlns"]


def _braces(latex: str) -> int:
    depth = deepest = 0
    for character in latex:
        depth += (character == "{") - (character == "}")
        deepest = max(deepest, depth)
    return deepest
