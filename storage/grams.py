"""The terms of the full-text index: pairs of neighbouring characters, so that every piece of a word is found.

- Of each two characters within a word, the pair. SQLite's own trigrams would find no Korean word of two
  syllables.
- Of Latin and other alphabets, each three characters as well: nearly every long English message has nearly
  every pair of letters.
- Of Hangul, Han characters and the like, each single one: 물 is a word.

They only choose candidates, whose text is then read. Pure functions; any thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from storage.errors import TooShort

_AS_WORD = {code: 0xE000 + code for code in range(128) if code != 32 and not chr(code).isalnum()}
"""FTS5's tokenizer would part terms at such characters: private ones stand for them."""

_SYLLABIC = "\u1100-\udfff\ue080-\U0010ffff"
"""Characters that say more than a letter does."""

_LETTERS = re.compile(f"[^ {_SYLLABIC}]+")
_SYLLABLE = re.compile(f"[{_SYLLABIC}]")


def grams(folded: str) -> str:
    """Each term of a folded text once, between spaces."""
    text = folded.translate(_AS_WORD)
    found = {first + second for first, second in zip(text, text[1:], strict=False)}
    found.update(_triples(text), _SYLLABLE.findall(text))
    return " ".join(gram for gram in found if " " not in gram)


def match_of(terms: Iterable[str]) -> str:
    """The FTS5 expression for texts that may contain all of these folded terms. Raises `TooShort`."""
    wanted = {gram for term in terms for word in term.split() for gram in _needed(word.translate(_AS_WORD))}
    if not wanted:
        raise TooShort("Write at least two letters: a single one is in nearly every message.")
    return " ".join(f'"{gram}"' for gram in sorted(wanted))


def _triples(text: str) -> Iterator[str]:
    for run in _LETTERS.findall(text):
        for at in range(len(run) - 2):
            yield run[at : at + 3]


def _needed(word: str) -> set[str]:
    """The fewest terms that tell most: a pair of letters is left out where triples contain it."""
    if len(word) == 1:
        return set(_SYLLABLE.findall(word))
    pairs = {word[at : at + 2] for at in range(len(word) - 1)}
    triples = set(_triples(word))
    return triples | {pair for pair in pairs if not any(pair in triple for triple in triples)}
