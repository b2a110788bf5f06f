"""Holds the double back between two steps, for as long as a test likes."""

from __future__ import annotations

import threading
from typing import Any

WAIT_S = 20


class Gate(threading.Semaphore):
    """Open, or shut with some steps let through; the worker waits in `acquire`."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._steps: int | None = None
        self._waits = False

    def acquire(self, *_: Any, **__: Any) -> bool:
        """Wait until a step may be taken."""
        with self._changed:
            self._waits = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._steps != 0)
            self._waits = False
            if self._steps is not None:
                self._steps -= 1
        return True

    def open(self) -> None:
        """As many steps as it wants."""
        self._set(None)

    def shut(self) -> None:
        """None from now on."""
        self._set(0)

    def let(self, steps: int) -> None:
        """So many more, of a gate that is shut."""
        self._set((self._steps or 0) + steps)

    def is_used_up(self, timeout: float) -> bool:
        """Whether, within a time, all steps were taken and the next is waited for."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waits and self._steps == 0, timeout)

    def _set(self, steps: int | None) -> None:
        with self._changed:
            self._steps = steps
            self._changed.notify_all()
