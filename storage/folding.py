"""What counts as the same text for who searches: letters without their case and width, in composed form.

Pure functions; any thread.
"""

from __future__ import annotations

import re
import unicodedata

_QUOTES = str.maketrans("“”„‟", '""""')
_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')
MAX_TERMS = 12
_VOWEL_OR_FINAL = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff]")


def fold(text: str) -> str:
    """The text as it is compared: NFKC, case-folded, white space as single spaces and none at the ends."""
    return " ".join((text.lower() if text.isascii() else _folded(text)).split())


def terms_of(query: str) -> tuple[str, ...]:
    """What a message has to contain, all of it, folded: single words, and phrases in quotation marks."""
    found = (fold(phrase or word) for phrase, word in _TERM.findall(query.translate(_QUOTES)))
    return tuple(dict.fromkeys(term for term in found if term))[:MAX_TERMS]


def fold_clusters(text: str) -> tuple[str, list[int]]:
    """The folded text without touching its spaces, and for each of its characters the index in `text` where
    the character that it comes from begins.
    """
    folded, places = [], []
    for start, cluster in _clusters(text):
        part = _folded(cluster)
        folded.append(part)
        places += [start] * len(part)
    return "".join(folded), places


def _folded(text: str) -> str:
    normal = unicodedata.normalize("NFKC", text)
    return unicodedata.normalize("NFKC", normal.casefold())


def _clusters(text: str) -> list[tuple[int, str]]:
    """Pieces that can be folded one by one: each begins with a character that joins none before it."""
    starts = [at for at, character in enumerate(text) if at == 0 or not _joins(character)]
    ends = [*starts[1:], len(text)] if starts else []
    return [(start, text[start:end]) for start, end in zip(starts, ends, strict=True)]


def _joins(character: str) -> bool:
    if character.isascii():
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.category(first).startswith("M") or _VOWEL_OR_FINAL.match(first) is not None
