"""What goes wrong on the worker thread, and who notices: bad output, no memory, death, a hang."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference.errors import EngineStopped, OutOfMemory
from inference.types import Delta, FinishReason, ModelPhase, WorkerState
from tests.inference.doubles import NUL
from tests.inference.test_engine import WAIT_S, Running, collect, last_of, text_of

SYSTEM = len("<system\nBe brief.>\n<user\n")

Start = Callable[..., Running]


class Dies(BaseException):
    """What no step catches."""


class Held:
    """A pace that holds the first step it meets."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._free = threading.Event()

    def acquire(self) -> None:
        self.reached.set()
        self._free.wait(3 * WAIT_S)  # longer than any test waits

    def release(self, steps: int = 1) -> None:
        self._free.set()


def hold(running: Running) -> Held:
    """Hold the next step."""
    held = Held()
    running.backend.pace = held  # type: ignore[assignment]
    return held


def wait_until_stopping(running: Running) -> None:
    while True:
        try:
            with running.engine.reserve():
                pass
        except EngineStopped:
            return


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Running] = []

    def make(pace: threading.Semaphore | None = None, **changes: object) -> Running:
        running = Running(tmp_path / "model", pace, **changes)
        started.append(running)
        return running

    yield make
    for running in started:
        for backend in running.made:
            if backend.pace is not None:
                backend.pace.release(100_000)
        running.engine.stop()


def test_output_that_is_not_a_number_ends_that_reply_alone_and_is_not_kept(start: Start) -> None:
    running = start().start()
    bad = running.prompt(f"{'x' * 30}ab{NUL}cd")
    good = running.prompt("fine" * 5)
    broken, whole = running.submit("bad", bad), running.submit("good", good)
    events = collect(broken)
    finished = last_of(events)
    assert finished.reason is FinishReason.ERROR
    assert finished.error is not None
    assert "not a number" in finished.error
    assert text_of(events) == f"{'x' * 30}ab"
    assert text_of(collect(whole)) == "fine" * 10
    assert running.engine.cached_tokens(bad) == SYSTEM


def test_without_memory_a_reply_ends_in_words_and_the_next_request_works(start: Start) -> None:
    running = start().start()
    kept = running.prompt("something that is cached")
    collect(running.submit("before", kept))
    assert running.engine.cached_tokens(kept) > SYSTEM
    running.backend.fail_with = OutOfMemory("tried to allocate 12 GiB")
    prompt = running.prompt("one")
    finished = last_of(collect(running.submit("a", prompt)))
    assert finished.reason is FinishReason.ERROR
    assert finished.error is not None
    assert f"with {len(prompt)} tokens" in finished.error
    assert "allocate" not in finished.error
    assert running.engine.cached_tokens(kept) == SYSTEM  # room was made, but not of what everybody needs
    assert text_of(collect(running.submit("b", running.prompt("two")))) == "twotwo"


def test_a_reply_is_whole_even_where_no_memory_is_left_to_cache_it(start: Start) -> None:
    running = start().start()
    running.backend.fail_copies_with = OutOfMemory("tried to allocate 12 GiB")
    events = collect(running.submit("a", running.prompt("one")))
    assert last_of(events).reason is FinishReason.STOP
    assert text_of(events) == "oneone"
    assert text_of(collect(running.submit("b", running.prompt("two")))) == "twotwo"


def test_when_the_worker_dies_what_had_begun_ends_and_what_waited_is_served(start: Start) -> None:
    pace = threading.Semaphore(6)
    running = start(pace, max_sequences=1).start()
    begun = running.submit("begun", running.prompt("words"))
    waiting = running.submit("waiting", running.prompt("later"))
    pace.release(2)
    while not isinstance(begun.get(timeout=WAIT_S), Delta):
        pace.release()
    running.backend.fail_with = Dies("the device is lost")
    pace.release(100_000)
    finished = last_of(collect(begun))
    assert finished.reason is FinishReason.ERROR
    assert finished.error is not None
    assert "the device is lost" in finished.error
    assert text_of(collect(waiting)) == "laterlater"
    status = running.wait_for(ModelPhase.LOADING)
    assert "the device is lost" in status.message
    assert "loaded again" in status.message
    assert len(running.made) == 2
    assert running.made[0].closed
    assert running.engine.worker_state is WorkerState.ALIVE


def test_a_second_death_is_final_until_a_person_asks(start: Start) -> None:
    running = start().start()
    for death in range(2):
        running.made[death].fail_with = Dies("the device is lost")
        collect(running.submit(f"r{death}", running.prompt("one")))
        if death == 0:
            running.wait_for(ModelPhase.READY)
    failed = running.wait_for(ModelPhase.FAILED)
    assert "twice" in failed.message
    assert "the device is lost" in failed.message
    assert running.engine.retry()
    running.wait_for(ModelPhase.READY)
    assert text_of(collect(running.submit("again", running.prompt("two")))) == "twotwo"


def test_a_worker_that_dies_while_the_engine_stops_has_no_successor(start: Start) -> None:
    running = start().start()
    held = hold(running)
    running.backend.fail_with = Dies("the device is lost")
    begun = running.submit("r", running.prompt("words"))
    assert held.reached.wait(WAIT_S)
    stopping = threading.Thread(target=running.engine.stop)
    stopping.start()
    wait_until_stopping(running)
    held.release()
    stopping.join(WAIT_S)
    collect(begun)
    assert running.engine.worker_state is WorkerState.ENDED
    assert len(running.made) == 1


def test_a_hang_is_told_and_every_request_ends(start: Start) -> None:
    running = start(step_limit_s=0.1, max_sequences=1).start()
    hold(running)
    hanging = running.submit("hanging", running.prompt("words"))
    waiting = running.submit("waiting", running.prompt("later"))
    for events in (hanging, waiting):
        finished = last_of(collect(events))
        assert finished.reason is FinishReason.ERROR
        assert finished.error is not None
        assert "more than 0.1 s" in finished.error
    assert running.hangs == [finished.error]
    assert running.engine.worker_state is WorkerState.HUNG
    assert not running.engine.retry()
    with pytest.raises(EngineStopped):
        running.engine.reserve()


def test_stop_ends_the_replies_of_a_worker_that_does_not_answer(start: Start) -> None:
    running = start().start()
    held = hold(running)
    events = running.submit("r", running.prompt("words"))
    assert held.reached.wait(WAIT_S)
    assert not running.engine.stop(timeout_s=0.05)
    assert last_of(collect(events)).reason is FinishReason.ABORT
