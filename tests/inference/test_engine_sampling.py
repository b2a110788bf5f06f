"""Sampling inside the engine: seeds, penalties, ignore_eos and logprobs, over logits that look random."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import numpy as np
import pytest

from inference.backends.base import Logits
from inference.config import EngineConfig
from inference.engine import Engine
from inference.models.prepared import PreparedModel, Progress
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
    SamplingParams,
)
from tests.inference.doubles import (
    END,
    VOCAB_SIZE,
    ScriptedBackend,
    TokenKV,
    engine_config,
    prepare_double,
)

WAIT_S = 20
SAMPLED = (
    {},
    {"temperature": 0.7, "top_p": 0.9},
    {"top_k": 12, "min_p": 0.02},
    {"temperature": 1.3, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.2},
    {"temperature": 0, "repetition_penalty": 1.5, "logprobs": 3},
)


class ScatteredBackend(ScriptedBackend):
    """Logits that look random and depend on nothing but the tokens that the KV cache really holds."""

    def _next(self, kv: TokenKV) -> Logits:
        noise = np.random.default_rng([len(kv.tokens), *kv.tokens[-6:]])
        return noise.normal(0, 2, VOCAB_SIZE).astype(np.float32)


class Reply:
    """What came for one request."""

    def __init__(self, events: list[Event]) -> None:
        deltas = [event for event in events if isinstance(event, Delta)]
        self.ids = [token for delta in deltas for token in delta.token_ids]
        self.logprobs = [token for delta in deltas for token in delta.logprobs]
        self.text = "".join(delta.text for delta in deltas)
        assert isinstance(events[-1], Finished)
        self.reason = events[-1].reason


class Running:
    """A started engine of four places."""

    def __init__(self, folder: Path, pace: threading.Semaphore) -> None:
        self.pace = pace
        ready: Queue[ModelStatus] = Queue()

        def load(prepared: PreparedModel, config: EngineConfig, progress: Progress) -> ScatteredBackend:
            self.backend = ScatteredBackend(ChatTokenizer.load(prepared), lambda prompt: "", pace=pace)
            return self.backend

        config = engine_config(folder, max_sequences=4, max_waiting=16)
        self.engine = Engine(config, lambda *_: prepare_double(folder), load, ready.put)
        self.engine.start()
        while ready.get(timeout=WAIT_S).phase is not ModelPhase.READY:
            pass

    def submit(self, question: str, **params: object) -> Queue[Event]:
        assert self.engine.tokenizing is not None
        messages = [ChatMessage("system", "Be brief."), ChatMessage("user", question)]
        prompt = self.engine.tokenizing.tokenizer.encode_chat(messages).ids
        sampling = SamplingParams(**{"max_tokens": 40, "ignore_eos": True, **params})  # type: ignore[arg-type]
        events: Queue[Event] = Queue()
        self.engine.submit(GenerationRequest(uuid.uuid4().hex, prompt, sampling), events.put)
        return events

    def reply(self, question: str, **params: object) -> Reply:
        return collect(self.submit(question, **params))


def collect(events: Queue[Event]) -> Reply:
    collected: list[Event] = []
    while not collected or not isinstance(collected[-1], Finished):
        collected.append(events.get(timeout=WAIT_S))
    return Reply(collected)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Running]]:
    started: list[Running] = []

    def make() -> Running:
        started.append(Running(tmp_path / "model", threading.Semaphore(100_000)))
        return started[-1]

    yield make
    for running in started:
        running.pace.release(100_000)
    assert all(running.engine.stop() for running in started)


def test_a_seed_gives_the_same_text_alone_and_beside_others(start: Callable[[], Running]) -> None:
    running, again = start(), start()
    wishes = [{**params, "seed": place} for place, params in enumerate(SAMPLED)]
    alone = [running.reply(f"question {place}", **wish) for place, wish in enumerate(wishes)]
    assert max(running.backend.batches) == 1
    places = list(range(len(wishes))) * 2
    random.Random(3).shuffle(places)
    while again.pace.acquire(blocking=False):  # nobody starts before all are there
        pass
    together = [(place, again.submit(f"question {place}", **wishes[place])) for place in places]
    again.pace.release(100_000)
    for place, events in together:
        reply = collect(events)
        assert reply.ids == alone[place].ids
        assert reply.logprobs == alone[place].logprobs
    assert max(again.backend.batches) == 4


def test_another_seed_gives_another_text(start: Callable[[], Running]) -> None:
    running = start()
    assert running.reply("same", seed=1).ids == running.reply("same", seed=1).ids
    assert running.reply("same", seed=1).ids != running.reply("same", seed=2).ids


def test_ignore_eos_goes_on_to_the_limit(start: Callable[[], Running]) -> None:
    running = start()
    seed = next(s for s in range(200) if END in running.reply("hi", seed=s).ids)
    ignoring, ending = running.reply("hi", seed=seed), running.reply("hi", seed=seed, ignore_eos=False)
    assert ignoring.reason is FinishReason.LENGTH
    assert len(ignoring.ids) == 40
    assert ending.reason is FinishReason.STOP
    assert ending.ids == ignoring.ids[: ignoring.ids.index(END)]


def test_penalties_grow_with_the_reply(start: Callable[[], Running]) -> None:
    running = start()
    plain = running.reply("hi", seed=4, top_k=3, max_tokens=200)
    penalized = running.reply("hi", seed=4, max_tokens=200, frequency_penalty=2.0, presence_penalty=2.0)
    assert max(penalized.ids.count(token) for token in set(penalized.ids)) <= 3
    assert len(set(penalized.ids)) > len(set(plain.ids))


def test_every_token_carries_its_probability_when_asked(start: Callable[[], Running]) -> None:
    running = start()
    reply = running.reply("hi", seed=5, top_k=2, logprobs=2)
    assert [token.token_id for token in reply.logprobs] == reply.ids
    for token in reply.logprobs:  # with top_k 2 the token is one of the two
        assert dict(token.top)[token.token_id] == token.logprob
        assert sum(np.exp(logprob) for _, logprob in token.top) < 1
    assert not running.reply("hi", seed=5, top_k=2).logprobs
