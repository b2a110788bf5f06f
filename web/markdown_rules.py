"""The rules that Ondol adds to markdown-it: mathematics, bounded nesting, emphasis beside Korean. Any thread.

Block rules here decide a block's end from its own lines, never from what may follow: so a finished block
stays as it is while more text arrives (`web.streaming_markdown` relies on it).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, fence, paragraph
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, image
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

from web.latex import MAX_LATEX_CHARS

# Containers nested deeper are shown as text; a list takes two levels, a quote one.
MAX_LEVEL = 24

_ENVIRONMENT = re.compile(
    r"\\begin\{((?:equation|align|alignat|gather|multline|flalign|eqnarray|split|cases|[bBpvV]?matrix)\*?)\}"
)
_INLINE = (("$$", "$$", True), ("$", "$", False), (r"\(", r"\)", False), (r"\[", r"\]", True))
_ASCII_WORD = re.compile("[A-Za-z0-9]")
_PROSE = re.compile(r"\s[A-Za-z]{2}")
_NOTATION = re.compile(r"[\\=^_]")
_WIDE = re.compile("[ᄀ-ᇿ⺀-〿぀-ヿ㄰-㆏㐀-䶿一-鿿ꥠ-꥿가-힣豈-﫿＀-￯]")


def add_rules(parser: MarkdownIt) -> None:
    """Put the rules of this module into `parser`."""
    interrupts: RuleOptionsType = {"alt": ["paragraph", "blockquote", "list"]}
    parser.block.ruler.before("table", "shallow", _shallow)
    parser.block.ruler.before("fence", "math_block", math_block, interrupts)
    parser.block.ruler.at("fence", marked_fence, interrupts)
    parser.inline.ruler.before("escape", "math_inline", math_inline)
    parser.inline.ruler.at("image", _shallow_image)
    parser.inline.ruler.at("emphasis", _emphasis)
    parser.core.ruler.push("label_tasks", _label_tasks)


def task_box(tokens: Sequence[Token], index: int) -> str | None:
    """The box of a task, as it was written, if the list item that `tokens[index]` opens is one."""
    checked = tokens[index].meta.get("checked")
    return None if checked is None else "[x]" if checked else "[ ]"


def _label_tasks(state: StateCore) -> None:
    """A task's first paragraph becomes the label of its box."""
    for index, token in enumerate(state.tokens):
        if token.type != "list_item_open" or task_box(state.tokens, index) is None:
            continue
        if state.tokens[index + 1].type == "paragraph_open":
            children = state.tokens[index + 2].children or []
            opening = Token("task_open", "label", 1, meta={"checked": token.meta["checked"]})
            state.tokens[index + 2].children = [opening, *children, Token("task_close", "label", -1)]


def _shallow(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return state.level >= MAX_LEVEL and paragraph(state, start, end, silent)


def marked_fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A fenced code block; `token.meta` tells whether it is still open, and its lines' indents."""
    if not fence(state, start, end, silent):
        return False
    if not silent:
        token = state.tokens[-1]
        lines = token.content.count("\n") + (not token.content.endswith("\n") and bool(token.content))
        still_open = lines >= state.line - start - 1
        token.meta = {"open": still_open, "indent": state.sCount[start], "block_indent": state.blkIndent}
    return True


def math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Display mathematics that begins a line: `$$…$$`, `\\[…\\]`, `\\begin{align}…`.

    It ends with its closing mark or before a blank line, and is a paragraph then.
    """
    if state.is_code_block(start):
        return False
    first = _line(state, start)
    marks = _marks(first)
    if marks is None:
        return False
    if silent:
        return True
    opener, closer = marks
    closed = first.endswith(closer) and len(first) >= len(opener) + len(closer)
    line = start + 1
    while not closed and line < end and not state.isEmpty(line) and state.sCount[line] >= state.blkIndent:
        closed = _line(state, line).endswith(closer)
        line += 1
    state.line = line
    source = "\n".join(_line(state, each) for each in range(start, line))
    if closed:
        token = state.push("math_block", "math", 0)
        token.map = [start, line]
        token.content = source
        token.info = source if opener.startswith(r"\begin") else source[len(opener) : -len(closer)]
    else:
        _push_paragraph(state, source, [start, line])
    return True


def _push_paragraph(state: StateBlock, source: str, lines: list[int]) -> None:
    state.push("paragraph_open", "p", 1).map = lines
    inline = state.push("inline", "", 0)
    inline.content = source
    inline.map = lines
    inline.children = []
    state.push("paragraph_close", "p", -1)


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip(" \t")


def _marks(line: str) -> tuple[str, str] | None:
    if environment := _ENVIRONMENT.match(line):
        marks = environment[0], rf"\end{{{environment[1]}}}"
    elif line.startswith(("$$", r"\[")):
        marks = line[:2], "$$" if line[0] == "$" else r"\]"
    else:
        return None
    closes_at = line.find(marks[1], len(marks[0]))
    return marks if closes_at < 0 or closes_at == len(line) - len(marks[1]) else None


def math_inline(state: StateInline, silent: bool) -> bool:
    """Mathematics within a line. A dollar sign must hug its formula, so that “$5 and $6” stays money."""
    marks = next((marks for marks in _INLINE if state.src.startswith(marks[0], state.pos)), None)
    if marks is None:
        return False
    opener, closer, display = marks
    start = state.pos + len(opener)
    end = _closing(state.src, closer, start, min(state.posMax, start + MAX_LATEX_CHARS))
    latex = state.src[start:end]
    if end < 0 or not latex.strip() or "\n\n" in latex:
        return False
    after = state.src[end + len(closer) : end + len(closer) + 1]
    if opener == "$" and not _hugs(state.src[max(0, state.pos - 1) : state.pos], latex, after):
        return False
    if opener == r"\[" and after in ("(", "["):
        return False
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.info = latex
        token.content = opener + latex + closer
        token.meta = {"display": display}
    state.pos = end + len(closer)
    return True


def _closing(text: str, closer: str, start: int, limit: int) -> int:
    end = text.find(closer, start, limit)
    while end > start and closer[0] == "$" and (end - len(text[start:end].rstrip("\\")) - start) % 2:
        end = text.find(closer, end + 1, limit)
    return end


def _hugs(before: str, latex: str, after: str) -> bool:
    if latex[0].isspace() or latex[-1].isspace() or _ASCII_WORD.search(before + after):
        return False
    return not (latex[0].isdigit() and _PROSE.search(latex) and not _NOTATION.search(latex))


def _shallow_image(state: StateInline, silent: bool) -> bool:
    # The library parses the text of an image by calling itself.
    depth = state.env.get("image_depth", 0)
    if depth >= 2:
        return False
    state.env["image_depth"] = depth + 1
    try:
        return image(state, silent)
    finally:
        state.env["image_depth"] = depth


def _emphasis(state: StateInline, silent: bool) -> bool:
    """Emphasis as in CommonMark, and `**“인용”**은` too: wide letters count as punctuation beside it."""
    start = state.pos
    marker = state.src[start]
    if silent or marker not in "_*":
        return False
    scanned = state.scanDelims(start, marker == "*")
    can_open, can_close = scanned.can_open, scanned.can_close
    if marker == "*":
        before = state.src[start - 1] if start else " "
        end = start + scanned.length
        after = state.src[end] if end < state.posMax else " "
        can_open = can_open or (_is_mark(after) and bool(_WIDE.match(before)))
        can_close = can_close or (_is_mark(before) and bool(_WIDE.match(after)))
    for _ in range(scanned.length):
        token = state.push("text", "", 0)
        token.content = marker
        state.delimiters.append(
            Delimiter(ord(marker), scanned.length, len(state.tokens) - 1, -1, can_open, can_close)
        )
    state.pos += scanned.length
    return True


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
