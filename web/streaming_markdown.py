"""A reply rendered while it is written, with work that stays in proportion to its length.

Blocks that further text cannot change are rendered once and frozen. Only the tail after them is rendered
again, and an open code fence at its end grows by appended text. One thread at a time calls `update` and
`finish`; `since` and `mark` may be called from another, and see the state before or after an update, never
between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

from markdown_it.token import Token

from web.markdown import first_line, parse_blocks, render, render_unfinished
from web.open_fence import OpenFence, open_fence

# A tail longer than this is rendered again only when it has grown by a share of the excess, so that one
# endless list or paragraph costs linear work too.
_LONG_TAIL_CHARS = 4_096
_GROWTH = 32


@dataclass(frozen=True, slots=True)
class Mark:
    """How much a watcher has: frozen blocks, the tail's version, characters of that tail's open code."""

    blocks: int
    version: int
    code: int


@dataclass(frozen=True, slots=True)
class Change:
    """What brings a watcher to `mark`.

    `blocks` go in before the tail; then `tail` replaces the whole tail, or `code` (text, not HTML) is
    appended to the last `code` element in it.
    """

    blocks: tuple[str, ...]
    tail: str | None
    code: str | None
    mark: Mark

    def __bool__(self) -> bool:
        return bool(self.blocks) or self.tail is not None or self.code is not None


@dataclass(frozen=True, slots=True)
class _State:
    """One consistent view. The tail is `head`, escaped `code` and `foot`; without open code `head` alone."""

    blocks: int = 0
    version: int = 0
    head: str = ""
    code: str = ""
    foot: str = ""

    @property
    def tail(self) -> str:
        return self.head + escape(self.code, quote=False) + self.foot


class StreamingMarkdown:
    """The HTML of one reply so far. `parsed_chars` counts the characters given to the markdown parser."""

    def __init__(self) -> None:
        self.parsed_chars = 0
        self._blocks: list[str] = []
        self._state = _State()
        self._text = ""
        self._start = 0
        self._rendered = 0
        self._fence: OpenFence | None = None

    @property
    def blocks(self) -> list[str]:
        """The frozen blocks, in order."""
        return self._blocks[: self._state.blocks]

    @property
    def tail(self) -> str:
        """HTML of the unfinished end."""
        return self._state.tail

    def update(self, text: str) -> None:
        """Take in the whole text so far; it begins with what the last call had."""
        self._text = text
        if self._fence is not None:
            if code := self._fence.read(text):
                self._state = replace(self._state, code=self._state.code + code)
            if self._fence.closed:
                self._advance()
        elif len(text) - self._rendered > max(0, len(text) - self._start - _LONG_TAIL_CHARS) // _GROWTH:
            self._advance()

    def finish(self) -> str:
        """The whole reply as it is kept. The tail becomes final too."""
        self._fence = None
        self._show(render(self._text[self._start :]), self._state.blocks)
        return render(self._text)

    def mark(self) -> Mark:
        """Where a watcher stands that has everything until now."""
        return _mark(self._state)

    def since(self, mark: Mark | None) -> Change:
        """What a watcher at `mark` lacks; everything for None."""
        state = self._state
        blocks = tuple(self._blocks[mark.blocks if mark else 0 : state.blocks])
        if mark is None or mark.version != state.version:
            return Change(blocks, state.tail, None, _mark(state))
        return Change(blocks, None, state.code[mark.code :] or None, _mark(state))

    def _advance(self) -> None:
        self._rendered = len(self._text)
        self._fence = None
        begin = self._start
        found = parse_blocks(self._slice(begin, len(self._text)))
        for start, end in pairwise(found.starts):
            self._blocks.append(render(self._slice(begin + start, begin + end)))
        if len(found.starts) > 1:
            self._start = begin + found.starts[-1]
        fence = open_fence(found.tokens[found.tops[-1] :]) if found.tops else None
        if fence is None or not self._open(fence, begin + found.lines[first_line(fence) + 1]):
            self._show(render_unfinished(self._slice(self._start, len(self._text))), len(self._blocks))

    def _open(self, fence: Token, position: int) -> bool:
        """Show the tail to the fence's first line and the code from `position` on; False if it ends."""
        reader = OpenFence(fence, position)
        code = reader.read(self._text)
        if reader.closed:
            return False
        self._fence = reader
        head, foot = render_unfinished(self._slice(self._start, position)).rsplit("</code>", 1)
        self._state = _State(len(self._blocks), self._state.version + 1, head, code, f"</code>{foot}")
        return True

    def _show(self, tail: str, blocks: int) -> None:
        changed = tail != self._state.tail
        version = self._state.version + changed
        self._state = _State(blocks, version, tail) if changed else replace(self._state, blocks=blocks)

    def _slice(self, start: int, end: int) -> str:
        self.parsed_chars += end - start
        return self._text[start:end]


def _mark(state: _State) -> Mark:
    return Mark(state.blocks, state.version, len(state.code))
