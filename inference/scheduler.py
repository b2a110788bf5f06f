"""Who is next: the waiting room before the worker. Thread-safe; it computes nothing."""

from __future__ import annotations

import threading
from collections import deque

from inference.errors import EngineBusy, EngineStopped
from inference.sequence import Sequence
from inference.types import Queued


class WaitingRoom:
    """Requests in the order they came. Everyone in it is told their position whenever it changes."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: deque[Sequence] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._reply_s: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, sequence: Sequence) -> None:
        """Join at the end. Raises `EngineBusy` when all places are taken, `EngineStopped` after `close`."""
        with self._changed:
            if self._closed:
                raise EngineStopped("The engine has stopped.")
            if len(self._waiting) >= self._places:
                raise EngineBusy(len(self._waiting), self._places)
            self._waiting.append(sequence)
            sequence.emit(self._place(len(self._waiting)))
            self._changed.notify()

    def take(self) -> Sequence | None:
        """The next in line, or None."""
        with self._changed:
            if not self._waiting:
                return None
            sequence = self._waiting.popleft()
            self._tell_positions()
            return sequence

    def remove(self, request_id: str) -> Sequence | None:
        """Take somebody out who no longer wants to wait."""
        with self._changed:
            for sequence in self._waiting:
                if sequence.request.id == request_id:
                    self._waiting.remove(sequence)
                    self._tell_positions()
                    return sequence
            return None

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until somebody waits; False once the room is closed (or the time is over)."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout)
            return bool(self._waiting) and not self._closed

    def close(self) -> list[Sequence]:
        """Let nobody in any more, and give back those who still waited."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return left

    def empty(self) -> list[Sequence]:
        """Send everybody away, but stay open."""
        with self._changed:
            left = list(self._waiting)
            self._waiting.clear()
            return left

    def observe(self, reply_s: float) -> None:
        """Learn how long a place was taken, for the estimates (an exponential mean of measured times)."""
        with self._changed:
            self._reply_s = reply_s if self._reply_s is None else 0.7 * self._reply_s + 0.3 * reply_s

    def _tell_positions(self) -> None:
        for position, sequence in enumerate(self._waiting, start=1):
            sequence.emit(self._place(position))

    def _place(self, position: int) -> Queued:
        return Queued(position, None if self._reply_s is None else round(position * self._reply_s, 1))
