"""The piece of a long text around what was searched for, with the found words marked. Pure; any thread."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storage.folding import fold, fold_clusters

_SIGNS = re.compile(r"\*\*|__|`+|^\s*(?:#{1,6}|>|[-*])\s+", re.MULTILINE)
BEFORE = 48
LENGTH = 180
"""Characters of a piece, about."""

STRETCH = 2_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of an excerpt; `found` where it is what was searched for."""

    text: str
    found: bool = False


def excerpt(text: str, terms: Sequence[str]) -> tuple[Piece, ...]:
    """The text around the first of the folded terms, in one line, as marked and unmarked pieces."""
    begin, near = _near(text, terms)
    line = " ".join(_without_signs(near, terms).split())
    at = min((place for term in terms if (place := _place(line, term)) is not None), default=0)
    start, end = max(0, at - BEFORE), min(len(line), at - min(at, BEFORE) + LENGTH)
    if start > 0:  # at a word, where one begins soon
        space = line.find(" ", start, at)
        start = start if space < 0 else space + 1
    if end < len(line):
        space = line.rfind(" ", at + 1, end)
        end = end if space < at + LENGTH // 2 else space
    pieces = marked(line[start:end], terms)
    rest = begin + len(near) < len(text)
    return (*_dots(start > 0 or begin > 0), *pieces, *_dots(end < len(line) or rest))


def marked(text: str, terms: Sequence[str]) -> tuple[Piece, ...]:
    """The whole text, with every folded term in it marked."""
    folded, places = fold_clusters(text)
    places.append(len(text))
    pieces, done = [], 0
    for start, end in _merged(sorted(_occurrences(folded, terms))):
        first, last = places[start], places[end]
        if last == places[end - 1]:  # the end lies within what one character became
            last = next((place for place in places[end:] if place > last), len(text))
        pieces += [Piece(text[done:first]), Piece(text[first:last], True)]
        done = last
    pieces.append(Piece(text[done:]))
    return tuple(piece for piece in pieces if piece.text)


def _near(text: str, terms: Sequence[str]) -> tuple[int, str]:
    """Of a very long text the stretch that an excerpt is made of, and where it begins."""
    for begin in range(0, len(text), STRETCH // 2):
        stretch = text[begin : begin + STRETCH]
        folded = fold(stretch)
        if any(term in folded for term in terms):
            return begin, stretch
    return 0, text[:STRETCH]


def _without_signs(text: str, terms: Sequence[str]) -> str:
    """Without what markdown writes around words, unless that is what was searched for."""
    plain = _SIGNS.sub("", text)
    folded = fold(plain)
    return plain if all(term in folded for term in terms) else text


def _place(line: str, term: str) -> int | None:
    """Where in the line the term begins, found by halves: folding may change the length."""
    at = fold(line).find(term)
    if at < 0:
        return None
    if line.isascii():
        return at
    low, high = 0, len(line)
    while low < high:
        middle = (low + high) // 2
        if len(fold(line[: middle + 1])) > at:
            high = middle
        else:
            low = middle + 1
    return low


def _occurrences(folded: str, terms: Sequence[str]) -> Iterator[tuple[int, int]]:
    for term in terms:
        at = folded.find(term)
        while at >= 0:
            yield at, at + len(term)
            at = folded.find(term, at + 1)


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _dots(cut: bool) -> tuple[Piece, ...]:
    return (Piece("…"),) if cut else ()
