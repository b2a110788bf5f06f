"""Notices a step of the worker that does not end. A thread cannot be ended from outside, so this only tells.

It looks from a thread of its own: a task of the event loop would be blind while the loop is busy. No thread
of this process runs while a step holds the interpreter; torch and ctypes let go of it while they compute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

LOOKS = 20
"""How often a step has to be seen before it counts as hung."""


class Pulse:
    """Which step the worker is making; None while it rests. Written by the worker, read by the watchdog."""

    def __init__(self) -> None:
        self.step: int | None = None
        self._steps = 0
        self._works = threading.Event()

    def beat(self) -> None:
        """A step begins."""
        self._steps += 1
        self.step = self._steps
        if not self._works.is_set():
            self._works.set()

    def rest(self) -> None:
        """No step is being made."""
        self.step = None
        self._works.clear()

    def wait(self) -> None:
        """Wait for a step, if none is being made."""
        self._works.wait()

    def end(self) -> None:
        """The worker has ended: nobody waits for a step of it any more."""
        self._works.set()


class Watchdog:
    """Calls `on_hang` once, on its own thread, when a step takes longer than `limit_s`."""

    def __init__(self, pulse: Pulse, limit_s: float, on_hang: Callable[[], None]) -> None:
        self._pulse = pulse
        self._limit_s = limit_s
        self._on_hang = on_hang
        self._seen: int | None = None
        self._looks = 0
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._watch, name="ondol-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self._pulse.end()

    def look(self) -> bool:
        """Whether the step has been the same for all of the last looks.

        Looks are counted instead of seconds: a process that was stopped or a laptop that was suspended was
        not looked at meanwhile. (Linux's monotonic clock leaves out suspension, not stopping; others count
        both.)
        """
        step = self._pulse.step
        self._looks = self._looks + 1 if step is not None and step == self._seen else 0
        self._seen = step
        return self._looks >= LOOKS

    def _watch(self) -> None:
        while not self._ended.wait(self._limit_s / LOOKS):
            self._pulse.wait()
            if self.look():
                self._on_hang()
                return
