"""Scoring replies that are written, with the scripted backend: figures, yielding, memory, stopping."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import numpy as np
import pytest

from inference.errors import EngineBusy, EngineStopped
from inference.memory import MemoryPlan
from inference.prefix_cache import PrefixCache
from inference.prefix_keeper import PrefixKeeper
from inference.scheduler import WaitingRoom
from inference.scoring import (
    MAX_JOBS,
    ScoreEnd,
    ScoreEvent,
    ScoreProgress,
    ScoreRequest,
    ScoringRoom,
    TokenScores,
)
from inference.sequence import Sequence
from inference.tally import Tally
from inference.types import (
    ChatMessage,
    Delta,
    Event,
    Finished,
    FinishReason,
    GenerationRequest,
    Prefill,
    SamplingParams,
)
from inference.worker import Worker
from tests.inference.doubles import ScriptedBackend, TokenKV, chat_tokenizer, engine_config
from tests.inference.test_engine import Running, collect

WAIT_S = 20
NO_LIMIT = 100_000


class Scored:
    """An engine whose replies can be scored."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.pace = threading.Semaphore(NO_LIMIT)
        self.running = Running(folder, self.pace, **changes).start()
        self.engine = self.running.engine

    def hold(self) -> None:
        """Let no step be made until `pace` is released."""
        while self.pace.acquire(blocking=False):
            pass

    def prompt(self, text: str) -> tuple[int, ...]:
        return self.running.prompt(text)

    def score(self, name: str, prompt: tuple[int, ...], ids: tuple[int, ...]) -> Queue[ScoreEvent]:
        events: Queue[ScoreEvent] = Queue()
        self.engine.score(ScoreRequest(name, prompt, ids, alternatives=3), events.put)
        return events


def end_of(events: Queue[ScoreEvent]) -> ScoreEnd:
    while True:
        event = events.get(timeout=WAIT_S)
        if isinstance(event, ScoreEnd):
            return event


def scores_of(events: Queue[ScoreEvent]) -> TokenScores:
    end = end_of(events)
    assert end.error is None
    assert end.scores is not None
    return end.scores


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Scored]]:
    started: list[Scored] = []

    def make(**changes: object) -> Scored:
        started.append(Scored(tmp_path / "model", **changes))
        return started[-1]

    yield make
    for each in started:
        each.pace.release(NO_LIMIT)
        each.engine.stop()


def test_every_token_has_the_probability_that_sampling_reported(start: Callable[..., Scored]) -> None:
    scored = start()
    prompt = scored.prompt("hi 가")
    events = collect(scored.running.submit("reply", prompt, logprobs=3, max_tokens=60))
    deltas = [event for event in events if isinstance(event, Delta)]
    ids = tuple(token for delta in deltas for token in delta.token_ids)
    reported = [logprob for delta in deltas for logprob in delta.logprobs]
    found = scores_of(scored.score("s", prompt, ids))
    np.testing.assert_array_equal(found.logprobs, np.float32([each.logprob for each in reported]))
    assert found.top_ids.tolist() == [[token for token, _ in each.top] for each in reported]
    assert set(found.ranks.tolist()) == {1}
    unlikely = scores_of(scored.score("s", prompt, (*ids[:2], 7)))
    assert unlikely.ranks[2] > 1
    assert unlikely.logprobs[2] == pytest.approx(-100, abs=1)


def test_a_reply_goes_first_and_the_scoring_goes_on_after_it(start: Callable[..., Scored]) -> None:
    scored = start()
    prompt, ids = scored.prompt("a long question " * 8), tuple(b"some reply" * 8)
    order: Queue[ScoreEvent | Event] = Queue()
    scored.hold()
    scored.engine.score(ScoreRequest("s", prompt, ids, alternatives=3), order.put)
    while not scored.running.backend.computed:  # it has begun
        scored.pace.release()
    sampling = SamplingParams(temperature=0, max_tokens=10)
    scored.engine.submit(GenerationRequest("r", scored.prompt("quick"), sampling), order.put)
    scored.pace.release(NO_LIMIT)
    events = [order.get(timeout=WAIT_S)]
    while not isinstance(events[-1], ScoreEnd):
        events.append(order.get(timeout=WAIT_S))
    begun = next(place for place, event in enumerate(events) if isinstance(event, Prefill))
    ended = next(place for place, event in enumerate(events) if isinstance(event, Finished))
    assert not any(isinstance(event, ScoreProgress) for event in events[begun:ended])
    assert any(isinstance(event, ScoreProgress) for event in events[ended:])
    assert events[-1].scores is not None


def test_a_stopped_scoring_ends_without_figures_and_lets_the_next_one_come(
    start: Callable[..., Scored],
) -> None:
    scored = start()
    prompt = scored.prompt("x " * 40)
    scored.hold()
    first, second = (scored.score(name, prompt, tuple(b"reply")) for name in ("one", "two"))
    scored.engine.abort_score("one")
    scored.pace.release(NO_LIMIT)
    assert end_of(first) == ScoreEnd()
    assert scores_of(second).logprobs.shape == (5,)


def test_a_failed_step_ends_one_scoring_with_a_sentence(start: Callable[..., Scored]) -> None:
    scored = start()
    scored.running.backend.fail_with = RuntimeError("broken")
    failed = end_of(scored.score("s", scored.prompt("x"), tuple(b"reply")))
    assert failed.scores is None
    assert failed.error is not None
    assert "broken" in failed.error
    assert scores_of(scored.score("s", scored.prompt("x"), tuple(b"reply"))).ranks.shape == (5,)


def test_what_is_longer_than_the_window_is_refused_with_both_numbers(start: Callable[..., Scored]) -> None:
    scored = start()
    error = end_of(scored.score("s", (65,) * 500, (66,) * 100)).error
    assert error is not None
    assert "600" in error
    assert "512" in error


def test_no_more_wait_than_there_are_places_and_none_after_the_end(start: Callable[..., Scored]) -> None:
    scored = start()
    scored.hold()
    waiting = [scored.score(f"{n}", scored.prompt("x"), (65,)) for n in range(MAX_JOBS)]
    with pytest.raises(EngineBusy):
        scored.score("more", scored.prompt("x"), (65,))
    scored.pace.release(NO_LIMIT)
    scored.engine.stop()
    assert all(isinstance(end_of(events), ScoreEnd) for events in waiting)
    with pytest.raises(EngineStopped):
        scored.score("late", scored.prompt("x"), (65,))


class CountingBackend(ScriptedBackend):
    """How many tokens all its living KV caches hold, and lets something happen at its third step."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        super().__init__(chat_tokenizer(), lambda prompt: "ok" * 90)
        self.most_tokens = 0
        self._interrupt: Callable[[], None] | None = interrupt
        self._alive: weakref.WeakSet[CountedKV] = weakref.WeakSet()

    def create_kv(self, tokens: int = 0) -> CountedKV:
        kv = CountedKV()
        self._alive.add(kv)
        return kv

    def _step(self) -> None:
        self.most_tokens = max(self.most_tokens, sum(kv.length for kv in self._alive))
        if self._interrupt is not None and self.most_tokens > 400:
            self._interrupt()
            self._interrupt = None


class CountedKV(TokenKV):
    __hash__ = object.__hash__


def test_a_reply_that_needs_the_memory_gets_it(tmp_path: Path) -> None:
    waiting, stopping = WaitingRoom(places=4), threading.Event()
    room, cache = ScoringRoom(waiting.wake), PrefixCache(0)
    events: Queue[ScoreEvent] = Queue()
    prompt = chat_tokenizer().encode_chat([ChatMessage("user", "y" * 150)]).ids
    request = GenerationRequest("r", prompt, SamplingParams(temperature=0, max_tokens=200))
    backend = CountingBackend(lambda: waiting.put(Sequence(request, lambda event: None, str)))

    def ended(event: ScoreEvent) -> None:
        events.put(event)
        if isinstance(event, ScoreEnd):
            stopping.set()

    def close(sequence: Sequence, reason: FinishReason, error: str | None = None) -> None:
        assert reason is FinishReason.STOP
        sequence.kv = None

    plan = MemoryPlan(kv_tokens=600, window=512, max_sequences=2, prefix_cache_bytes=0)
    keeper = PrefixKeeper(cache, None)
    worker = Worker(
        backend, plan, engine_config(tmp_path), waiting, cache, keeper, close, Tally(), scoring=room
    )
    room.put(ScoreRequest("s", prompt, tuple(b"reply" * 50), 3), ended)
    worker.serve(stopping)
    assert scores_of(events).logprobs.shape == (250,)
    assert backend.most_tokens <= plan.kv_tokens


def test_scores_survive_being_packed() -> None:
    scores = TokenScores.empty(3, 2)
    for place in range(3):
        scores.put(place, np.float32([0, 1, 2, -1]), place)
    again = TokenScores.unpack(scores.pack(), 3)
    assert again.ranks.tolist() == [3, 2, 1]
    assert again.top_ids.tolist() == [[2, 1]] * 3
    np.testing.assert_array_equal(again.logprobs, scores.logprobs)
    with pytest.raises(ValueError, match="scores of 4 tokens"):
        TokenScores.unpack(scores.pack(), 4)
