"""How much one socket may send: too much that is not ours ends it, too much that is slows it down. Event
loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

POLICY_VIOLATION = 1008


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """`bad_frames` within `bad_s` end a socket. `frames` may come at once and `frames_per_s` for ever; who
    sends more waits before each further one, the longer the more they send.

    A page sends a `count` for each pause in typing and a command for each click, five a second at most: so
    people are never slowed down, and a page that has gone wild keeps its socket and costs little. A hundred a
    minute, as is often advised, would be too few for the count.
    """

    bad_frames: int = 20
    bad_s: float = 60.0
    frames: int = 600
    frames_per_s: float = 10.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


class Conduct:
    """One socket's frames so far."""

    def __init__(self, limits: SocketLimits) -> None:
        self._limits = limits
        self._bad: deque[float] = deque(maxlen=limits.bad_frames)
        self._sent, self._at = 0.0, limits.clock()

    async def take(self) -> None:
        """One more frame: wait for as long as the socket is ahead of what it may send."""
        limits, now = self._limits, self._limits.clock()
        self._sent = max(0.0, self._sent - (now - self._at) * limits.frames_per_s) + 1
        self._at = now
        if self._sent > limits.frames:
            await limits.pause((self._sent - limits.frames) / limits.frames_per_s)

    def is_too_bad(self) -> bool:
        """One of them was not ours: whether there were too many of that kind."""
        now = self._limits.clock()
        self._bad.append(now)
        return len(self._bad) == self._limits.bad_frames and now - self._bad[0] < self._limits.bad_s
