"""uvicorn's server, at rest while nothing comes. Event loop.

uvicorn wakes up ten times a second: to see whether it should end, and to renew the Date header. On a machine
that rests otherwise, each time costs milliseconds. This one is told to end, and makes the header when it is
asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
from email.utils import formatdate
from typing import TypeAlias

import uvicorn
from uvicorn.server import ServerState

Headers: TypeAlias = list[tuple[bytes, bytes]]


class DatedState(ServerState):
    """What connections know of their server, with a Date header of the moment in which they ask."""

    @property
    def default_headers(self) -> Headers:
        """The headers of every answer."""
        return [(b"date", formatdate(usegmt=True).encode())]

    @default_headers.setter
    def default_headers(self, headers: Headers) -> None:
        """uvicorn sets them once, to none."""


class RestingServer(uvicorn.Server):
    """Ends as soon as `should_exit` is set, from a signal handler or from any thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()
        self._rests = False
        self._should_exit = False
        super().__init__(config)
        self.server_state = DatedState()

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
        while not self.should_exit:
            pause_s = self.look_after()
            self._rests = pause_s is None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._told.wait()
            self._told.clear()

    def stir(self) -> None:
        """End the server's rest, if it rests. For its own thread."""
        if self._rests:
            self._told.set()

    def look_after(self) -> float | None:
        """Called again and again, after as many seconds as it answers; None: once something stirs."""
        return None
