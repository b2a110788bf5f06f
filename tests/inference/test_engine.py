"""The worker thread, with a scripted backend: queue, prefill, decode, stop, failure, reuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import Queue

import pytest

from inference.engine import Engine
from inference.errors import EngineBusy, EngineStopped, ModelUnavailable
from inference.models.prepared import PreparedModel
from inference.tokenization import ChatTokenizer
from inference.types import (
    ChatMessage,
    Delta,
    Event,
    Finished,
    FinishReason,
    GenerationRequest,
    ModelPhase,
    ModelStatus,
    Prefill,
    Queued,
    SamplingParams,
    WorkerState,
)
from tests.inference.doubles import ScriptedBackend, engine_config, prepare_double, scripted_loader

WAIT_S = 20


def echo(prompt: str) -> str:
    """The reply of the double: the last line that the user wrote, doubled."""
    return prompt.strip().splitlines()[-1].removeprefix("user") * 2


class Running:
    """An engine with its double, and what it emits."""

    def __init__(self, folder: Path, pace: threading.Semaphore | None = None, **changes: object) -> None:
        self.made: list[ScriptedBackend] = []
        self.statuses: Queue[ModelStatus] = Queue()
        self.failures: list[Exception] = []
        self.hangs: list[str] = []
        self.emitted: list[tuple[str, Event]] = []
        load = scripted_loader(echo, self.made, pace)

        def prepare(config: object, progress: object, cancelled: object):
            if self.failures:
                raise self.failures.pop()
            return prepare_double(folder)

        config = engine_config(folder, **changes)
        self.engine = Engine(config, prepare, load, self.statuses.put, self.hangs.append)

    @property
    def backend(self) -> ScriptedBackend:
        return self.made[0]

    def start(self) -> Running:
        self.engine.start()
        self.wait_for(ModelPhase.READY)
        self.backend.computed.clear()
        return self

    def wait_for(self, phase: ModelPhase) -> ModelStatus:
        while True:
            status = self.statuses.get(timeout=WAIT_S)
            if status.phase is phase:
                return status

    def prompt(self, text: str, earlier: list[ChatMessage] | None = None) -> tuple[int, ...]:
        assert self.engine.tokenizing is not None
        messages = [ChatMessage("system", "Be brief."), *(earlier or []), ChatMessage("user", text)]
        return self.engine.tokenizing.tokenizer.encode_chat(messages).ids

    def submit(
        self, name: str, prompt_ids: tuple[int, ...], person: str = "", **params: object
    ) -> Queue[Event]:
        events: Queue[Event] = Queue()
        sampling = SamplingParams(**{"temperature": 0, "max_tokens": 100, **params})  # type: ignore[arg-type]

        def emit(event: Event) -> None:
            self.emitted.append((name, event))
            events.put(event)

        self.engine.submit(GenerationRequest(name, prompt_ids, sampling, person), emit)
        return events


def collect(events: Queue[Event]) -> list[Event]:
    """All events up to the last one."""
    collected: list[Event] = []
    while not collected or not isinstance(collected[-1], Finished):
        collected.append(events.get(timeout=WAIT_S))
    return collected


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def last_of(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []
    paces: list[threading.Semaphore] = []

    def make(pace: threading.Semaphore | None = None, **changes: object) -> Running:
        running = Running(tmp_path / "model", pace, **changes)
        started.append(running)
        if pace is not None:
            paces.append(pace)
        return running

    yield make
    for pace in paces:
        pace.release(100_000)
    assert all(running.engine.stop() for running in started)


def test_a_reply_streams_and_tells_what_it_cost(start: Callable[..., Running]) -> None:
    running = start().start()
    prompt = running.prompt("hello")
    events = collect(running.submit("r", prompt))
    assert isinstance(events[0], Queued)
    assert text_of(events) == "hellohello"
    finished = last_of(events)
    assert finished.reason is FinishReason.STOP
    assert finished.usage.prompt_tokens == len(prompt)
    assert finished.usage.completion_tokens == len("hellohello")
    assert finished.timings.ttft_s is not None
    assert finished.timings.ttft_s <= finished.timings.total_s


def test_prefill_goes_in_chunks_and_reports_each(start: Callable[..., Running]) -> None:
    running = start(prefill_chunk=16).start()
    prompt = running.prompt("x" * 100)
    events = collect(running.submit("r", prompt))
    done = [event.done for event in events if isinstance(event, Prefill)]
    assert done == sorted(done)
    assert done[-1] == len(prompt)
    assert max(running.backend.computed) == 16


def test_the_system_prompt_is_computed_once_for_everyone(start: Callable[..., Running]) -> None:
    running = start().start()
    first = last_of(collect(running.submit("a", running.prompt("one"))))
    second = last_of(collect(running.submit("b", running.prompt("two"))))
    system = len("<system\nBe brief.>\n<user\n")
    assert first.usage.cached_tokens == system
    assert second.usage.cached_tokens == system


def test_the_next_turn_computes_only_what_is_new(start: Callable[..., Running]) -> None:
    running = start().start()
    first_prompt = running.prompt("one")
    first = collect(running.submit("a", first_prompt))
    ids = tuple(token for event in first if isinstance(event, Delta) for token in event.token_ids)
    earlier = [ChatMessage("user", "one"), ChatMessage("assistant", text_of(first), ids)]
    prompt = running.prompt("two", earlier)
    second = collect(running.submit("b", prompt))
    assert text_of(second) == "twotwo"
    assert last_of(second).usage.cached_tokens == len(first_prompt) + len(ids)


def test_text_is_the_same_with_and_without_the_cache(start: Callable[..., Running]) -> None:
    cached, uncached = start().start(), start(prefix_cache_bytes=0).start()
    for text in ("one", "one", "other", "one"):
        with_cache = collect(cached.submit("r", cached.prompt(text)))
        without = collect(uncached.submit("r", uncached.prompt(text)))
        assert text_of(with_cache) == text_of(without) == text * 2
        assert last_of(without).usage.cached_tokens == 0


def test_replies_run_side_by_side_and_the_rest_wait_in_line(start: Callable[..., Running]) -> None:
    pace = threading.Semaphore(10)
    running = start(pace).start()
    prompts = {name: running.prompt(name * 10) for name in "abcd"}
    queues = {name: running.submit(name, prompts[name]) for name in "ab"}
    for queue in queues.values():  # both have a place now
        while not isinstance(queue.get(timeout=WAIT_S), Prefill):
            pass
    queues |= {name: running.submit(name, prompts[name]) for name in "cd"}
    with pytest.raises(EngineBusy) as refusal:
        running.submit("e", prompts["a"])
    assert refusal.value.limit == 2
    pace.release(100_000)
    replies = {name: collect(queue) for name, queue in queues.items()}
    assert {name: text_of(events) for name, events in replies.items()} == {n: n * 20 for n in "abcd"}
    assert max(running.backend.batches) == 2
    positions = [event.position for event in replies["d"] if isinstance(event, Queued)]
    assert positions == sorted(positions, reverse=True)


def test_who_comes_to_a_house_that_one_person_fills_is_next(start: Callable[..., Running]) -> None:
    pace = threading.Semaphore(10)
    running = start(pace, max_waiting=3).start()
    while pace.acquire(blocking=False):
        pass
    texts = {"a1": "a1" * 25, "a2": "a2" * 6, "a3": "a3", "b1": "b1", "b2": "b2"}
    queues = {name: running.submit(name, running.prompt(texts[name]), "a") for name in ("a1", "a2")}
    for queue in queues.values():
        pace.release(4)
        while not isinstance(queue.get(timeout=WAIT_S), Prefill):
            pace.release()
    for name in ("a3", "b1", "b2"):
        queues[name] = running.submit(name, running.prompt(texts[name]), name[0])
    with pytest.raises(EngineBusy):
        running.submit("b3", running.prompt("b3"), "b")
    pace.release(100_000)
    replies = {name: collect(queue) for name, queue in queues.items()}
    assert {name: text_of(events) for name, events in replies.items()} == {n: t * 2 for n, t in texts.items()}
    begun = list(dict.fromkeys(name for name, event in running.emitted if isinstance(event, Prefill)))
    assert begun == ["a1", "a2", "b1", "b2", "a3"]  # as long as a1 runs, b has the other place
    told = {name: [e.position for e in replies[name] if isinstance(e, Queued)] for name in ("a3", "b1", "b2")}
    assert told["a3"][:2] == [1, 2]  # b has come, and is first
    assert (told["b1"][0], told["b2"][0]) == (1, 3)


def test_a_newcomer_is_read_while_others_are_written(start: Callable[..., Running]) -> None:
    pace = threading.Semaphore(20)
    running = start(pace).start()
    writing = running.submit("a", running.prompt("a" * 40))
    while not isinstance(writing.get(timeout=WAIT_S), Delta):
        pass
    reading = running.submit("b", running.prompt("b" * 100))
    pace.release(100_000)
    collect(reading)
    before = running.backend.computed.index(16, 3)
    assert before > 0
    assert running.backend.batches.count(1) > 0


@pytest.mark.parametrize("steps", [3, 12, 20])
def test_stop_ends_within_a_chunk_or_a_token(start: Callable[..., Running], steps: int) -> None:
    pace = threading.Semaphore(6)
    running = start(pace).start()
    pace.release(steps)
    events = running.submit("r", running.prompt("y" * 100))
    while pace._value > 0:
        events.get(timeout=WAIT_S)
    running.engine.abort("r")
    running.engine.abort("r")
    done = len(running.backend.computed) + len(running.backend.batches)
    pace.release(5)
    finished = last_of(collect(events))
    assert finished.reason is FinishReason.ABORT
    assert finished.timings.stop_s is not None
    assert len(running.backend.computed) + len(running.backend.batches) <= done + 2


def test_a_waiting_request_that_is_stopped_never_starts(start: Callable[..., Running]) -> None:
    pace = threading.Semaphore(6)
    running = start(pace, max_sequences=1).start()
    busy = running.submit("a", running.prompt("a"))
    busy.get(timeout=WAIT_S)
    waiting = running.submit("b", running.prompt("b"))
    running.engine.abort("b")
    finished = last_of(collect(waiting))
    assert finished.reason is FinishReason.ABORT
    assert finished.usage.completion_tokens == 0
    pace.release(100_000)
    assert text_of(collect(busy)) == "aa"


def test_what_was_computed_before_a_stop_is_reused(start: Callable[..., Running]) -> None:
    pace = threading.Semaphore(6)
    running = start(pace).start()
    prompt = running.prompt("z" * 100)
    pace.release(4)
    events = running.submit("r", prompt)
    while pace._value > 0:
        events.get(timeout=WAIT_S)
    running.engine.abort("r")
    pace.release(100_000)
    collect(events)
    again = collect(running.submit("again", prompt))
    assert last_of(again).usage.cached_tokens > len("<system\nBe brief.>\n<user\n")
    assert text_of(again) == "z" * 100


def test_a_failing_step_ends_that_reply_and_not_the_thread(start: Callable[..., Running]) -> None:
    running = start().start()
    running.backend.fail_with = ValueError("no such layer")
    finished = last_of(collect(running.submit("a", running.prompt("one"))))
    assert finished.reason is FinishReason.ERROR
    assert finished.error is not None
    assert "no such layer" in finished.error
    assert text_of(collect(running.submit("b", running.prompt("two")))) == "twotwo"


def test_max_tokens_ends_a_reply(start: Callable[..., Running]) -> None:
    running = start().start()
    events = collect(running.submit("r", running.prompt("hello"), max_tokens=3))
    assert last_of(events).reason is FinishReason.LENGTH
    assert text_of(events) == "hel"


def test_a_full_window_ends_a_reply(start: Callable[..., Running]) -> None:
    running = start().start()
    prompt = running.prompt("w" * 240)
    events = collect(running.submit("r", prompt, max_tokens=10_000))
    assert last_of(events).reason is FinishReason.LENGTH
    assert len(prompt) + last_of(events).usage.completion_tokens == 512


def test_a_stop_string_ends_a_reply_before_it(start: Callable[..., Running]) -> None:
    running = start().start()
    events = collect(running.submit("r", running.prompt("one END two"), stop=("END",)))
    assert last_of(events).reason is FinishReason.STOP
    assert text_of(events) == "one "


def test_requests_wait_while_the_model_loads(start: Callable[..., Running]) -> None:
    pace = threading.Semaphore(0)
    running = start(pace)
    running.engine.start()
    while running.engine.tokenizing is None:
        running.statuses.get(timeout=WAIT_S)
    events = running.submit("r", running.prompt("early"))
    assert isinstance(events.get(timeout=WAIT_S), Queued)
    pace.release(100_000)
    assert text_of(collect(events)) == "earlyearly"


def test_a_model_that_failed_can_be_tried_again(start: Callable[..., Running]) -> None:
    running = start()
    running.failures.append(ModelUnavailable("The network is away. Try again."))
    running.engine.start()
    assert running.wait_for(ModelPhase.FAILED).message == "The network is away. Try again."
    assert running.engine.retry()
    running.wait_for(ModelPhase.READY)
    assert not running.engine.retry()


def test_a_stopped_engine_takes_nothing_and_ends_what_runs(start: Callable[..., Running]) -> None:
    pace = threading.Semaphore(8)
    running = start(pace).start()
    prompt = running.prompt("s" * 50)
    events = running.submit("r", prompt)
    events.get(timeout=WAIT_S)
    stopping = threading.Thread(target=running.engine.stop)
    stopping.start()
    pace.release(100_000)
    stopping.join(WAIT_S)
    assert last_of(collect(events)).reason is FinishReason.ABORT
    with pytest.raises(EngineStopped):
        running.submit("late", prompt)
    assert running.engine.worker_state is WorkerState.ENDED


def test_the_window_is_what_memory_holds_once_that_is_known(tmp_path: Path) -> None:
    loading = threading.Event()
    reached = {phase: threading.Event() for phase in ModelPhase}

    def load(prepared: PreparedModel, *_: object) -> ScriptedBackend:
        assert loading.wait(WAIT_S)
        backend = ScriptedBackend(ChatTokenizer.load(prepared), echo, window=2_048)
        backend.description = replace(backend.description, free_bytes=2**18)
        return backend

    engine = Engine(
        engine_config(tmp_path),
        lambda *_: prepare_double(tmp_path, window=2_048),
        load,
        lambda status: reached[status.phase].set(),
    )
    assert engine.window == 0
    engine.start()
    assert reached[ModelPhase.LOADING].wait(WAIT_S)
    assert engine.window == 2_048
    loading.set()
    assert reached[ModelPhase.READY].wait(WAIT_S)
    # Six tenths of 2^18 bytes are usable, a third of that is the cache's; a token takes 100 bytes.
    assert engine.window == (int(2**18 * 0.6) - int(int(2**18 * 0.6) / 3)) // 100
    assert engine.stop()
