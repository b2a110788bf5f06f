"""What the engine says of itself, against what its events and its double say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from inference.tally import EngineSnapshot
from inference.types import FinishReason, ModelPhase, Prefill
from tests.inference.test_engine import WAIT_S, Running, collect, last_of


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[tuple[Running, threading.Semaphore]] = []

    def make(permits: int = 10_000, **changes: object) -> Running:
        pace = threading.Semaphore(permits + 100)  # what begins every conversation is read at the start
        running = Running(tmp_path / "model", pace, **changes).start()
        while pace._value > permits and pace.acquire(blocking=False):
            pass
        started.append((running, pace))
        return running

    yield make
    for running, pace in started:
        pace.release(10_000)
        running.engine.stop()


def wait_until(running: Running, condition: Callable[[EngineSnapshot], bool]) -> EngineSnapshot:
    deadline = monotonic() + WAIT_S
    while not condition(snapshot := running.engine.snapshot()):
        assert monotonic() < deadline, snapshot
    return snapshot


def test_at_rest_every_token_was_counted_once(start: Callable[..., Running]) -> None:
    running = start()
    prompt = running.prompt("one two three")
    ends = [last_of(collect(running.submit(name, prompt))) for name in ("first", "second")]
    at_rest = wait_until(running, lambda seen: not seen.running and seen.counts.first_tokens == 2)
    counts = at_rest.counts
    assert counts.prompt_tokens == 2 * len(prompt)
    assert counts.cached_tokens == sum(end.usage.cached_tokens for end in ends) > 0
    assert (
        counts.prefill_tokens == sum(running.backend.computed) == counts.prompt_tokens - counts.cached_tokens
    )
    assert counts.completion_tokens == sum(end.usage.completion_tokens for end in ends)
    assert counts.decode_steps == len(running.backend.batches)
    assert counts.last_ttft_s == ends[-1].timings.ttft_s
    assert counts.ttft_s == pytest.approx(sum(end.timings.ttft_s or 0 for end in ends))
    assert at_rest.ended[FinishReason.STOP] == 2
    assert at_rest.prefix_cache_bytes >= 100 * running.engine.cached_tokens(prompt) > 0


def test_a_snapshot_shows_what_runs_and_who_waits_while_the_worker_computes(
    start: Callable[..., Running],
) -> None:
    running = start(permits=8, max_sequences=1)
    prompt = running.prompt("abcdefghij")
    events = running.submit("first", prompt)
    running.submit("second", prompt)
    while not isinstance(events.get(timeout=WAIT_S), Prefill):
        pass
    seen = wait_until(running, lambda seen: bool(seen.running) and not seen.running[0].in_prefill)
    reply = seen.running[0]
    assert (reply.id, seen.waiting) == ("first", 1)
    assert reply.computed_tokens == len(prompt) + max(0, reply.completion_tokens - 1)
    assert seen.kv_promised_tokens == min(seen.plan.window, len(prompt) + 100)  # type: ignore[union-attr]
    assert seen.kv_bytes(seen.kv_used_tokens) == 100 * reply.computed_tokens


def test_a_worker_that_died_leaves_nothing_running_and_what_was_counted(
    start: Callable[..., Running],
) -> None:
    running = start()
    collect(running.submit("first", running.prompt("one")))
    before = wait_until(running, lambda seen: seen.counts.first_tokens == 1).counts
    running.backend.fail_with = SystemExit("the end")
    collect(running.submit("second", running.prompt("two")))
    running.wait_for(ModelPhase.READY)
    seen = running.engine.snapshot()
    assert seen.running == ()
    assert seen.counts.completion_tokens >= before.completion_tokens
    assert seen.ended[FinishReason.ERROR] == 1
