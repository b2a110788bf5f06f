"""Wrong guesses, by the address they come from: after a few, each has to wait longer. Event loop.

An address is only counted here, never trusted. Those that were quiet for a while are forgotten.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FREE = 3
LONGEST_WAIT_S = 60.0
FORGET_S = 600.0
CAPACITY = 1_024


@dataclass(slots=True)
class _Record:
    failures: int
    last: float


class Attempts:
    """Three wrong guesses cost nothing; then the waits are 1, 2, 4 … 60 s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """For how long nothing from there is looked at; 0 when it may try now."""
        record = self._records.get(address)
        if record is None or record.failures < FREE:
            return 0.0
        delay = min(LONGEST_WAIT_S, 2.0 ** (record.failures - FREE))
        return max(0.0, record.last + delay - self._clock())

    def failed(self, address: str) -> None:
        """A guess from there was looked at and was wrong."""
        now = self._clock()
        record = self._records.pop(address, None)
        if record is None or now - record.last > FORGET_S:
            record = _Record(0, now)
        record.failures += 1
        record.last = now
        self._records[address] = record
        if len(self._records) > CAPACITY:
            self._records.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """A guess from there was right."""
        self._records.pop(address, None)
