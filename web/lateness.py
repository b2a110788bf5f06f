"""What becomes of an event loop that is late, since somebody held the interpreter or the machine stood still:
one line in the log, and no socket is closed for it. Event loop.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

logger = logging.getLogger(__name__)

TOLD_S = 1.0
"""Less than that nobody notices, and importing torch takes half of it."""
LAST_CHANCE_S = 1.0


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


class Lateness:
    """Told after one pause of known length after another that the loop is there. `clock` is for doubles."""

    def __init__(self, pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause_s = pause_s
        self._clock = clock
        self._last: float | None = None

    def note(self) -> None:
        """The loop is there; one line in the log where it comes late."""
        now = self._clock()
        late = now - self._last - self._pause_s if self._last is not None else 0.0
        self._last = now
        if late >= TOLD_S:
            logger.warning(
                "the server stood still for %.1f s: the interpreter was held, or the machine was stopped",
                late,
            )
