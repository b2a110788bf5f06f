"""Stored texts as HTML, kept while they are asked for and as long as all of them stay small. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict

from web.markdown import render_in_parts

MAX_CHARS = 8_000_000


class Rendered:
    """Remembers what was rendered last: `max_chars` of text and HTML together.

    A number of texts would be no bound: an imported one may have a megabyte.
    """

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._max_chars = max_chars
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        self.chars = 0

    def html(self, text: str) -> str:
        """A text as HTML. Blocks where it is not kept; two threads may then both render it."""
        with self._lock:
            html = self._kept.get(text)
            if html is not None:
                self._kept.move_to_end(text)
                return html
        html = render_in_parts(text)
        with self._lock:
            if text not in self._kept:
                self._kept[text] = html
                self.chars += len(text) + len(html)
            while self.chars > self._max_chars:
                old, its_html = self._kept.popitem(last=False)
                self.chars -= len(old) + len(its_html)
        return html
