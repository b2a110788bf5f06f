"""Markdown, as models write it, to safe HTML. Any thread.

markdown-it parses (raw HTML off), Pygments and latex2mathml render code and mathematics, and nh3 passes the
final string through an allowlist. Link reference definitions are off: what a block looks like depends on that
block alone, and a link's target stands beside its text. Images are never loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from web.highlighting import code_block
from web.latex import formula
from web.markdown_rules import add_rules, task_box
from web.open_fence import NEWLINE
from web.sanitizing import sanitize

# Without the slashes a browser takes `http:x` for an address on the page's own server.
_LINK = re.compile(r"https?://[^\s/]|mailto:", re.IGNORECASE)
_MAX_LANGUAGE_CHARS = 30


# A long text is rendered in steps of at least this, so that few tokens live at once: the garbage collector
# walks over all that do, and stops every thread meanwhile.
_STEP_CHARS = 8_192


def render(text: str) -> str:
    """A whole reply as sanitized HTML."""
    return "".join(_render(text[start:end], {}) for start, end in pairwise(_steps(text)))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The block tokens of a text, and which of them are outermost: `tops` are indices, `starts` the places
    in the text where they begin. `lines` is where its lines begin.
    """

    tokens: list[Token]
    tops: list[int]
    lines: list[int]
    starts: list[int]


def render_in_parts(text: str) -> str:
    """The same, a long text in parts that a browser can lay out apart."""
    parts = [_render(text[start:end], {}) for start, end in pairwise(_steps(text))]
    return parts[0] if len(parts) == 1 else "".join(f'<div class="part">{part}</div>' for part in parts)


def render_unfinished(text: str) -> str:
    """The end of a reply that is still being written: a code fence that is not closed yet stays plain."""
    return _render(text, {"unfinished": True})


def render_plain(text: str) -> str:
    """A person's own text, exactly as typed: one paragraph whose line breaks the page keeps."""
    return f"<p>{escape(text.replace(chr(0), chr(0xFFFD)), quote=False)}</p>"


def parse_blocks(text: str) -> Blocks:
    """The outermost blocks in the lines of `text` that are whole. Their inline content is not parsed."""
    lines = [0, *(newline.end() for newline in NEWLINE.finditer(text))]
    tokens: list[Token] = []
    parser = _parser()
    parser.block.parse(_normalized(text[: lines[-1]]), parser, {}, tokens)
    tops = [i for i, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0 and token.map]
    return Blocks(tokens, tops, lines, [lines[first_line(tokens[index])] for index in tops])


def first_line(token: Token) -> int:
    """The line of the parsed text that a block token begins in."""
    return token.map[0] if token.map else 0


def _steps(text: str) -> Iterator[int]:
    """Where the parts of `text` begin and end that can be rendered apart, at blocks' borders."""
    start, size = 0, _STEP_CHARS
    yield start
    while len(text) - start > size:
        starts = parse_blocks(text[start : start + size]).starts
        if len(starts) > 1 and starts[-1]:
            start, size = start + starts[-1], _STEP_CHARS
            yield start
        else:
            size *= 2
    yield len(text)


def _render(text: str, env: EnvType) -> str:
    try:
        return sanitize(_parser().render(text, env))
    except RecursionError:
        return render_plain(text)


def _normalized(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return _LINK.match(url) is not None


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "breaks": True, "tasklists": True, "maxNesting": 60}
    parser = _Parser("commonmark", options, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    add_rules(parser)
    parser.render("*compile the rules*")
    return parser


class _Renderer(RendererHTML):
    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        words = unescapeAll(token.info).split()
        language = words[0][:_MAX_LANGUAGE_CHARS] if words else ""
        plain = bool(env.get("unfinished")) and bool(token.meta.get("open"))
        return code_block(token.content, language, plain=plain)

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return code_block(tokens[idx].content, "")

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        target = str(tokens[idx].attrGet("src"))
        return f'<span class="image">{escape(tokens[idx].content)} ({escape(target)})</span>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        target = escape(str(tokens[idx].attrGet("href")))
        return f'<a href="{target}" title="{target}">'

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        opening = self.renderToken(tokens, idx, options, env)
        box = task_box(tokens, idx)
        return opening if box is None or tokens[idx + 1].type == "paragraph_open" else f"{opening}{box} "

    def task_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        checked = " checked" if tokens[idx].meta["checked"] else ""
        return f'<label><input class="task-list-item-checkbox"{checked}> '

    def task_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</label>"

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<div class="table"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        side = str(token.attrGet("style") or "").removeprefix("text-align:")
        return f'<{token.tag} class="align-{side}">' if side else f"<{token.tag}>"

    td_open = th_open

    def math_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        mathml = formula(token.content, token.info, display=bool(token.meta["display"]))
        return f'<span class="math">{mathml}</span>'

    def math_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        return f'<div class="math">{formula(token.content, token.info, display=True)}</div>\n'
