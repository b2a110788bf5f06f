"""uvicorn's server, at rest while nothing comes. Event loop.

uvicorn looks ten times a second whether it should end, which alone can cost a small machine half a percent of
a core. This one is told; once a second it renews the Date header.
"""

from __future__ import annotations

import asyncio
import contextlib

import uvicorn

TICK_S = 1.0


class RestingServer(uvicorn.Server):
    """Ends as soon as `should_exit` is set, from a signal handler or from any thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()
        self._should_exit = False
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        """Whether the server is to end."""
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        if value and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop may have closed by now
                self._loop.call_soon_threadsafe(self._told.set)

    async def main_loop(self) -> None:
        """Serve until told to end."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._told.wait()
