"""Stopping a reply at any moment of its life."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest

from inference.types import Delta, Event, FinishReason
from tests.inference.test_engine import WAIT_S, Running, collect, last_of, text_of

TIMES = 200
CHUNK = 16


class Gate:
    """A pace that lets through as many steps as it is told, and tells when the worker waits for more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._allowed = 0
        self._waits = False

    def acquire(self) -> None:
        with self._changed:
            self._waits = True
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._allowed > 0, 3 * WAIT_S)
            self._allowed -= 1
            self._waits = False

    def let(self, steps: int) -> None:
        """Let so many steps pass, and wait until the worker is at the next one."""
        with self._changed:
            self._allowed += steps
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._waits and not self._allowed, WAIT_S)

    def let_one(self) -> None:
        """Let a step pass, and wait for nothing: there may be no other."""
        with self._changed:
            self._allowed += 1
            self._changed.notify_all()

    def open(self) -> None:
        """Let everything pass from now on."""
        with self._changed:
            self._allowed = 10**9
            self._changed.notify_all()


Start = Callable[..., tuple[Running, Gate]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[tuple[Running, Gate]] = []

    def make(**changes: object) -> tuple[Running, Gate]:
        gate = Gate()
        small = {"prefix_cache_bytes": 0, "prefill_chunk": CHUNK, **changes}
        running = Running(tmp_path / "model", **small).start()
        running.backend.pace = gate  # type: ignore[assignment]
        started.append((running, gate))
        return running, gate

    yield make
    for running, gate in started:
        gate.open()
        assert running.engine.stop()


def steps_of(running: Running) -> tuple[int, int]:
    """Tokens of prompts that were computed, and decode steps that were made."""
    return sum(running.backend.computed), len(running.backend.batches)


def stop(running: Running, name: str) -> None:
    """Ask for it twice: the second time says nothing new."""
    running.engine.abort(name)
    running.engine.abort(name)


def drain(events: Queue[Event]) -> list[Event]:
    """What was told by now."""
    return [events.get_nowait() for _ in range(events.qsize())]


def nothing_more(events: Queue[Event]) -> bool:
    with pytest.raises(Empty):
        events.get_nowait()
    return True


@pytest.mark.row(16)
def test_a_request_that_is_stopped_while_it_waits_never_starts(start: Start) -> None:
    running, gate = start(max_sequences=1, max_waiting=TIMES)
    busy = running.submit("busy", running.prompt("busy"))
    while not running.engine.snapshot().running:
        gate.let(1)
    waiting = {f"r{number}": running.submit(f"r{number}", running.prompt("later")) for number in range(TIMES)}
    before = steps_of(running)
    order = list(waiting)
    random.Random(16).shuffle(order)
    for name in order:
        stop(running, name)
        finished = last_of(collect(waiting[name]))
        assert finished.reason is FinishReason.ABORT
        assert finished.usage.completion_tokens == 0
    assert steps_of(running) == before
    gate.open()
    assert text_of(collect(busy)) == "busybusy"
    assert sum(running.backend.computed) == len(running.prompt("busy"))
    assert all(nothing_more(events) for events in waiting.values())


@pytest.mark.row(16)
def test_a_prefill_that_is_stopped_reads_no_further_than_its_chunk(start: Start) -> None:
    running, gate = start()
    chance, prompt = random.Random(16), running.prompt("p" * 300)
    for number in range(TIMES):
        events = running.submit(f"r{number}", prompt)
        gate.let(chance.randrange(len(prompt) // CHUNK))
        computed, decoded = steps_of(running)
        stop(running, f"r{number}")
        gate.let_one()
        finished = last_of(collect(events))
        assert finished.reason is FinishReason.ABORT
        assert finished.usage.completion_tokens == 0
        assert steps_of(running) == (computed + CHUNK, decoded)
        assert nothing_more(events)


@pytest.mark.row(16)
def test_a_reply_that_is_stopped_gets_one_more_token_at_most(start: Start) -> None:
    running, gate = start()
    chance, prompt = random.Random(16), running.prompt("0123456789" * 4)
    chunks = -(-len(prompt) // CHUNK)
    for number in range(TIMES):
        events = running.submit(f"r{number}", prompt)
        gate.let(chunks + chance.randrange(70))
        written = [event for event in drain(events) if isinstance(event, Delta)]
        stop(running, f"r{number}")
        gate.let_one()
        ended = collect(events)
        finished = last_of(ended)
        assert finished.reason is FinishReason.ABORT
        assert len(written) <= finished.usage.completion_tokens <= len(written) + 1
        assert ("0123456789" * 8).startswith(text_of(written) + text_of(ended))
        assert nothing_more(events)


@pytest.mark.row(16)
def test_stopping_a_reply_that_has_ended_changes_nothing(start: Start) -> None:
    running, gate = start()
    gate.open()
    for number in range(TIMES):
        events = running.submit(f"r{number}", running.prompt("all"))
        assert text_of(collect(events)) == "allall"
        stop(running, f"r{number}")
        assert nothing_more(events)
    ended = running.engine.snapshot().ended
    assert (ended[FinishReason.STOP], ended[FinishReason.ABORT]) == (TIMES, 0)
