"""Whether the server has anything to do: a model is being made ready, or replies are being written. What
watches it meanwhile rests as long as it has not. Event loop.
"""

from __future__ import annotations

import asyncio


class Activity:
    """What goes on at present, each under its own name."""

    def __init__(self) -> None:
        self._going_on: set[str] = set()
        self._some = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._going_on)

    def note(self, name: str, *, goes_on: bool) -> None:
        """Something begins or ends; told again, nothing changes."""
        if goes_on:
            self._going_on.add(name)
            self._some.set()
            return
        self._going_on.discard(name)
        if not self._going_on:
            self._some.clear()

    async def begun(self) -> None:
        """Wait until something goes on, if nothing does."""
        await self._some.wait()
