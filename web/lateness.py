"""Whether the event loop was late: somebody held the interpreter, or the whole machine stood still."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

TOLD_S = 1.0
"""Less than that nobody notices, and importing torch takes half of it."""


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
