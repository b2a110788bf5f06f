"""The way out of the worker: events cross from its thread to an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from inference.types import Delta, Event, Finished


class EventStream:
    """One reply's events. `put` is for the worker thread, iteration for the event loop.

    Deltas merge while the reader is behind, so that a slow reader costs one string and not a queue, and the
    loop is woken once a batch, not once a token. Iteration ends after `Finished`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._news = asyncio.Event()
        self._lock = threading.Lock()
        self._pending: list[Event] = []

    def put(self, event: Event) -> None:
        """Add an event; never blocks. Tolerates a loop that has closed."""
        with self._lock:
            wake = not self._pending
            last = self._pending[-1] if self._pending else None
            if isinstance(event, Delta) and isinstance(last, Delta):
                self._pending[-1] = last.then(event)
            elif type(event) is type(last):
                self._pending[-1] = event  # only the newest position or progress matters
            else:
                self._pending.append(event)
        if wake:
            try:
                self._loop.call_soon_threadsafe(self._news.set)
            except RuntimeError:
                return

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            await self._news.wait()
            self._news.clear()
            with self._lock:
                events, self._pending = self._pending, []
            for event in events:
                yield event
                if isinstance(event, Finished):
                    return
