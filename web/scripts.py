"""Which scripts a page fetches at once, and what they say. Read once from `static/js`; any thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from web.language import Language

FOLDER = Path(__file__).resolve().parent.parent / "static" / "js"
_IMPORTED = re.compile(r'^(?:import|export)\b[^;]*?"\./([^"]+)";', re.MULTILINE)


@cache
def fetched_with(entry: str) -> frozenset[str]:
    """A script, and all that it imports before it runs."""
    waiting, found = [entry], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _IMPORTED.findall((FOLDER / name).read_text(encoding="utf-8"))
    return frozenset(found)


def texts_at_first(language: Language, entry: str | None) -> dict[str, Sequence[str]]:
    """What a page that begins with the script `entry` needs of `for_scripts`; everything where it is None."""
    if entry is None:
        return dict(language.for_scripts)
    begin = fetched_with(entry)
    return {text: forms for text, forms in language.for_scripts.items() if language.scripts[text] & begin}
