"""Where two texts differ, word by word. Pure; long texts take a while: call it from a pool thread.

Lines are matched first, then the words of those lines that changed: so the time stays bounded, and what is
alike stays together. Word breaks are kept, so that the pieces spell both texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile

MAX_PAIRS = 6_000_000
"""Two passages with more pairs of lines, or of words, than this are shown as replaced as a whole."""

_WORD = re.compile(r"\s+|\w+|([^\w\s])\1*")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Text that both have, or only the one that it stands in."""

    text: str
    changed: bool


def differences(one: str, other: str, *, words: bool = True) -> tuple[list[Stretch], list[Stretch]]:
    """Both texts in stretches; without `words` whole lines are marked, which is quick."""
    left: list[Stretch] = []
    right: list[Stretch] = []
    for a, b, same in _matched(one.splitlines(keepends=True), other.splitlines(keepends=True)):
        if same or not words:
            _add(left, "".join(a), changed=not same)
            _add(right, "".join(b), changed=not same)
            continue
        for c, d, alike in _words("".join(a), "".join(b)):
            _add(left, "".join(c), changed=not alike)
            _add(right, "".join(d), changed=not alike)
    return left, right


def _words(one: str, other: str) -> Iterator[tuple[Sequence[str], Sequence[str], bool]]:
    a, b = ([word[0] for word in _WORD.finditer(text)] for text in (one, other))
    yield from _matched(a, b)


def _matched(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str], bool]]:
    start = _common_beginning(a, b)
    end = _common_beginning(a[start:][::-1], b[start:][::-1])
    yield a[:start], b[:start], True
    yield from _opcodes(a[start : len(a) - end], b[start : len(b) - end])
    yield a[len(a) - end :], b[len(b) - end :], True


def _opcodes(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str], bool]]:
    if len(a) * len(b) > MAX_PAIRS:
        yield a, b, False
        return
    for kind, a_start, a_end, b_start, b_end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        yield a[a_start:a_end], b[b_start:b_end], kind == "equal"


def _add(stretches: list[Stretch], text: str, *, changed: bool) -> None:
    """Append, joined with what stands before where that is of the same kind."""
    if not text:
        return
    if stretches and stretches[-1].changed == changed:
        text = stretches.pop().text + text
    stretches.append(Stretch(text, changed))


def _common_beginning(a: Sequence[str], b: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
