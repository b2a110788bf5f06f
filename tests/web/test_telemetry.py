"""Rates of the last ten minutes and sums of what is stored, on counted time; and how they are drawn."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from inference.tally import TTFT_BOUNDS_S, Counts, EngineSnapshot
from inference.types import ModelPhase
from storage.records import UsageTotals
from storage.usage import Usage
from web.activity import Activity
from web.plots import HEIGHT, WIDTH, plot, shares
from web.telemetry import SAMPLE_S, SAMPLES, STORED_FOR_S, Telemetry

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


class Sums(Usage):
    """Instead of a database: notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[datetime | None] = []

    def totals(self, since: datetime | None = None) -> UsageTotals:
        self.asked.append(since)
        return UsageTotals(1, 100, 60, 7)


class Watched:
    """An engine whose counts are set by hand."""

    def __init__(self) -> None:
        self.now, self.counts, self.sums, self.looks = 0.0, Counts(), Sums(), 0
        self.activity = Activity()
        self.telemetry = Telemetry(
            self.snapshot, self.sums, self.activity, clock=lambda: self.now, now=lambda: NOON
        )
        self.telemetry.sample()

    def snapshot(self) -> EngineSnapshot:
        self.looks += 1
        return EngineSnapshot(ModelPhase.READY, None, None, waiting=2, counts=self.counts)

    def pass_time(self, counts: Counts, seconds: float = SAMPLE_S) -> None:
        self.now += seconds
        self.counts = counts
        self.telemetry.sample()


def ttft_class(place: int, count: int) -> tuple[int, ...]:
    return tuple(count if i == place else 0 for i in range(len(TTFT_BOUNDS_S) + 1))


def test_the_server_s_speed_and_one_chat_s_are_told_apart() -> None:
    watched = Watched()
    # Four chats write 40 tokens each within the two seconds, as the clock on the wall has it.
    watched.pass_time(Counts(completion_tokens=164, decode_tokens=160, writing_s=8.0, busy_s=2.0))
    (interval,) = watched.telemetry.history()
    assert interval.server_tok_s == 82.0
    assert interval.chat_tok_s == 20.0
    assert interval.waiting == 2
    assert interval.ttft_s is None
    watched.pass_time(watched.counts)
    assert watched.telemetry.history()[-1].chat_tok_s is None
    lately = watched.telemetry.lately()
    assert lately is not None
    assert (lately.seconds, lately.server_tok_s, lately.chat_tok_s) == (4.0, 41.0, 20.0)


def test_times_to_the_first_token_are_the_mean_of_those_that_came() -> None:
    watched = Watched()
    watched.pass_time(Counts(ttft_counts=ttft_class(2, 3), ttft_s=0.6, last_ttft_s=0.3))
    watched.pass_time(Counts(ttft_counts=ttft_class(2, 4), ttft_s=1.6, last_ttft_s=1.0))
    assert [interval.ttft_s for interval in watched.telemetry.history()] == pytest.approx([0.2, 1.0])


def test_ten_minutes_are_kept_and_no_more() -> None:
    watched = Watched()
    for number in range(SAMPLES + 20):
        watched.pass_time(Counts(completion_tokens=number))
    history = watched.telemetry.history()
    assert len(history) * SAMPLE_S == 600
    assert history[-1].server_tok_s == 0.5
    just_now = watched.telemetry.just_now()
    assert just_now is not None
    assert just_now.seconds == 10


def test_nothing_is_looked_at_during_a_rest_and_all_of_it_is_told_later() -> None:
    watched = Watched()
    watched.counts = Counts(completion_tokens=10)

    async def rest_and_work() -> None:
        watched.telemetry.start()
        await asyncio.sleep(0)
        looks = watched.looks
        watched.now += 4_001
        await asyncio.sleep(0)
        history = watched.telemetry.history()
        assert (len(history), {i.seconds for i in history}) == (SAMPLES, {SAMPLE_S})
        assert {interval.server_tok_s for interval in history} == {0.0}
        watched.now += 60
        assert watched.looks == looks
        watched.activity.note("reply", goes_on=True)
        watched.counts = Counts(completion_tokens=50)
        watched.now += 1
        watched.telemetry.sample()
        history = watched.telemetry.history()
        assert [interval.server_tok_s for interval in history[-2:]] == [0.0, 20.0]
        assert sum(interval.seconds for interval in history) == SAMPLES * SAMPLE_S
        watched.telemetry.close()

    asyncio.run(rest_and_work())


def test_sums_are_asked_for_once_in_a_while_and_from_midnight_here() -> None:
    watched = Watched()

    async def ask() -> UsageTotals:
        return (await watched.telemetry.stored()).today

    for _ in range(3):
        assert asyncio.run(ask()).cached_tokens == 60
    assert len(watched.sums.asked) == 2
    midnight, everything = watched.sums.asked
    assert everything is None
    assert midnight is not None
    assert midnight.astimezone().timetz().replace(tzinfo=None) == datetime.min.time()
    assert timedelta(0) <= NOON - midnight < timedelta(days=1)
    watched.now += STORED_FOR_S + 1
    asyncio.run(ask())
    assert len(watched.sums.asked) == 4


def test_a_plot_ends_at_the_right_edge_and_leaves_gaps() -> None:
    drawn = plot([None, 2.0, 4.0, None, 1.0], places=5)
    assert drawn.line == "M75,32 L150,4 M299,46 L301,46".replace(" L", " ")
    assert drawn.area == f"M75,32 150,4 V{HEIGHT} H75 Z M299,46 301,46 V{HEIGHT} H299 Z"
    assert drawn.highest == 4.0
    assert plot([], places=5).line == plot([None], places=5).area == ""
    stacked = plot([1.0, 1.0], places=2, above=[1.0, 3.0])
    assert stacked.highest == 4.0
    assert stacked.above == f"M0,32 {WIDTH},4 L{WIDTH},46 0,46 Z"


def test_the_parts_of_a_bar_fill_it() -> None:
    parts = shares([("a", 1), ("b", 2), ("c", 1)])
    assert [(part.start, part.width) for part in parts] == [(0, 25), (25, 50), (75, 25)]
    assert [part.width for part in shares([("a", 0)])] == [0]
