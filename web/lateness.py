"""What becomes of an event loop that is late, since somebody held the interpreter or the machine stood still:
one line in the log, and no socket is closed for it. Event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from web.activity import Activity

logger = logging.getLogger(__name__)

TOLD_S = 1.0
"""Less than that nobody notices, and importing torch takes half of it."""
LAST_CHANCE_S = 1.0
PAUSE_S = 1.0


class PatientSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which looks for a pong once more before it misses it, and ends in order whatever
    its client did just before.

    A stall mostly begins while the loop sleeps. When it wakes up, timers are due at once that were set for
    later, while it knows only of what had arrived before: the pong came meanwhile, and is read next.
    """

    def keepalive_timeout(self) -> None:
        """The time for a pong is over."""
        self.pong_timer = self.loop.call_later(LAST_CHANCE_S, super().keepalive_timeout)

    def shutdown(self) -> None:
        """The server ends."""
        with contextlib.suppress(InvalidState):  # its client has said that it leaves, and is not answered yet
            super().shutdown()
        self.transport.close()


async def tell_of_stalls(activity: Activity) -> None:
    """As long as anything goes on, look once a second whether the loop is in time; one line in the log where
    it is not. For ever.
    """
    while True:
        await activity.begun()
        before = time.monotonic()
        await asyncio.sleep(PAUSE_S)
        late = time.monotonic() - before - PAUSE_S
        if late >= TOLD_S:
            logger.warning(
                "the server stood still for %.1f s: the interpreter was held, or the machine was stopped",
                late,
            )
