"""Wrong guesses, by the address they come from: after a few, each has to wait longer. Event loop.

An address is only counted here, never trusted. A machine has many of IPv6, so a network of them (/64) counts
as one. Those that were quiet for a while are forgotten.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address

FREE = 3
LONGEST_WAIT_S = 60.0
FORGET_S = 600.0
CAPACITY = 1_024


@dataclass(slots=True)
class _Record:
    failures: int
    last: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a guess is not looked at now, and for how long."""

    seconds: int

    @property
    def sentence(self) -> str:
        """For people."""
        return f"Too many wrong tries. Wait {self.seconds} seconds, then try again."

    @property
    def headers(self) -> Mapping[str, str]:
        """For programs."""
        return {"Retry-After": str(self.seconds)}


class Attempts:
    """Three wrong guesses cost nothing; then the waits are 1, 2, 4 … 60 s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def refusal(self, address: str) -> Waiting | None:
        """Why nothing from there is looked at now; None when it may try."""
        seconds = math.ceil(self.wait_s(address))
        return Waiting(seconds) if seconds else None

    def wait_s(self, address: str) -> float:
        """For how long nothing from there is looked at; 0 when it may try now."""
        record = self._records.get(_source(address))
        if record is None or record.failures < FREE:
            return 0.0
        delay = min(LONGEST_WAIT_S, 2.0 ** (record.failures - FREE))
        return max(0.0, record.last + delay - self._clock())

    def failed(self, address: str) -> None:
        """A guess from there was looked at and was wrong."""
        now = self._clock()
        address = _source(address)
        record = self._records.pop(address, None)
        if record is None or now - record.last > FORGET_S:
            record = _Record(0, now)
        record.failures += 1
        record.last = now
        self._records[address] = record
        if len(self._records) > CAPACITY:
            self._records.popitem(last=False)

    def restart(self, address: str) -> None:
        """The last guess from there took a while to be found wrong: the wait begins now."""
        record = self._records.get(_source(address))
        if record is not None:
            record.last = self._clock()

    def succeeded(self, address: str) -> None:
        """A guess from there was right."""
        self._records.pop(_source(address), None)


def _source(address: str) -> str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(IPv6Network((parsed, 64), strict=False))
    return address
