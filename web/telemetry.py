"""The last ten minutes of the engine, and what it did in all: for the pages that tell of it. Event loop.

Every two seconds the engine's snapshot goes into a ring; rates are differences of its counts. While the
engine rests, nobody wakes up for that: what would have been seen is put in later. What is stored is summed in
a pool thread, at most once a second however many people look.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from starlette.concurrency import run_in_threadpool

from inference.tally import Counts, EngineSnapshot
from storage.conversations import utc_now
from storage.records import UsageTotals
from storage.usage import Usage
from web.activity import Activity

SAMPLE_S = 2.0
SAMPLES = 300
NOW_SAMPLES = 5
STORED_FOR_S = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The engine at a moment of a steady clock, in seconds."""

    at: float
    counts: Counts
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Interval:
    """What happened between two samples, and what ran at its end.

    server_tok_s: tokens written a second, by all chats together. chat_tok_s: tokens after the first, per
    second that a chat was being written. prefill_tok_s: prompt tokens computed, per second of computing them.
    ttft_s: the mean of the `first_tokens` that came. None where there was nothing. Of prompts, cached_tokens
    were reused and prefill_tokens computed.
    """

    seconds: float
    server_tok_s: float
    chat_tok_s: float | None
    prefill_tok_s: float | None
    ttft_s: float | None
    first_tokens: int
    cached_tokens: int
    prefill_tokens: int
    running: int
    waiting: int

    @classmethod
    def between(cls, before: Sample, after: Sample) -> Interval:
        """From the earlier to the later sample."""
        old, new, seconds = before.counts, after.counts, after.at - before.at
        return cls(
            seconds=seconds,
            server_tok_s=(new.completion_tokens - old.completion_tokens) / seconds if seconds > 0 else 0.0,
            chat_tok_s=_rate(new.decode_tokens - old.decode_tokens, new.writing_s - old.writing_s),
            prefill_tok_s=_rate(new.prefill_tokens - old.prefill_tokens, new.prefill_s - old.prefill_s),
            ttft_s=_mean(new.ttft_s - old.ttft_s, new.first_tokens - old.first_tokens),
            first_tokens=new.first_tokens - old.first_tokens,
            cached_tokens=new.cached_tokens - old.cached_tokens,
            prefill_tokens=new.prefill_tokens - old.prefill_tokens,
            running=after.running,
            waiting=after.waiting,
        )


@dataclass(frozen=True, slots=True)
class Stored:
    """Usage of the stored replies: of those that ended today by this machine's clock, and of all."""

    today: UsageTotals
    in_all: UsageTotals


class Telemetry:
    """Samples one engine. `clock` and `now` are for doubles."""

    def __init__(
        self,
        snapshot: Callable[[], EngineSnapshot],
        usage: Usage,
        activity: Activity,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.snapshot = snapshot
        self._usage = usage
        self._activity = activity
        self._clock = clock
        self._now = now
        self._ring: deque[Sample] = deque(maxlen=SAMPLES + 1)
        self._rests = False  # since the last sample, after which there was nothing to do
        self._stored: tuple[float, Stored] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Sample from now on."""
        self._task = asyncio.create_task(self._keep_sampling())

    def close(self) -> None:
        """Sample no more."""
        if self._task is not None:
            self._task.cancel()

    def sample(self) -> None:
        """Take the next sample."""
        self._catch_up()
        seen = self.snapshot()
        self._ring.append(Sample(self._clock(), seen.counts, len(seen.running), seen.waiting))

    def history(self) -> list[Interval]:
        """The last ten minutes at most, oldest first."""
        self._catch_up()
        samples = list(self._ring)
        return [Interval.between(a, b) for a, b in zip(samples, samples[1:], strict=False)]

    def lately(self) -> Interval | None:
        """All of `history` as one interval; None before there is any."""
        self._catch_up()
        return Interval.between(self._ring[0], self._ring[-1]) if len(self._ring) > 1 else None

    def just_now(self) -> Interval | None:
        """The last ten seconds, so that a slow machine's figures do not jump; None before there are two
        samples.
        """
        self._catch_up()
        if len(self._ring) < 2:
            return None
        return Interval.between(self._ring[max(0, len(self._ring) - 1 - NOW_SAMPLES)], self._ring[-1])

    async def stored(self) -> Stored:
        """What the stored replies cost, at most a second old. Raises `StorageError`."""
        if self._stored is None or self._clock() - self._stored[0] > STORED_FOR_S:
            self._stored = (self._clock(), await run_in_threadpool(self._sum))
        return self._stored[1]

    def _sum(self) -> Stored:
        midnight = self._now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        return Stored(self._usage.totals(since=midnight), self._usage.totals())

    def _catch_up(self) -> None:
        """Put in the samples of a rest, each like the last one; what is only just due will be taken."""
        if not self._rests:
            return
        last = self._ring[-1]
        missed = int((self._clock() - last.at) / SAMPLE_S - 0.5)
        for number in range(max(1, missed - SAMPLES), missed + 1):
            self._ring.append(replace(last, at=last.at + number * SAMPLE_S))

    async def _keep_sampling(self) -> None:
        while True:
            rests = not self._activity  # asked first: what ends after this is seen by the next sample
            self.sample()
            self._rests = rests
            if rests:
                await self._activity.begun()
            await asyncio.sleep(SAMPLE_S - (self._clock() - self._ring[-1].at) % SAMPLE_S)


def values(history: Sequence[Interval], read: Callable[[Interval], float | None]) -> list[float | None]:
    """One series of the history."""
    return [read(interval) for interval in history]


def _rate(amount: float, seconds: float) -> float | None:
    return amount / seconds if amount > 0 and seconds > 0 else None


def _mean(total: float, count: int) -> float | None:
    return total / count if count > 0 else None
