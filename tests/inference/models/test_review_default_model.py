"""The default model in float32: a seed writes the same reply again, and scoring finds what sampling saw."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue

import numpy as np
import pytest

from inference.backends import load_backend
from inference.engine import Engine
from inference.models.catalogue import DEFAULT_MODEL
from inference.scoring import ScoreEnd, ScoreEvent, ScoreRequest
from inference.types import (
    ChatMessage,
    Delta,
    Event,
    Finished,
    GenerationRequest,
    ModelPhase,
    ModelStatus,
    SamplingParams,
)
from tests.inference.doubles import engine_config
from tests.inference.models.conftest import Preparing
from tests.inference.models.test_default_model import MODELS_DIR

WAIT_S = 240
PARAMS = SamplingParams(temperature=0.9, top_p=0.95, seed=20_261_129, max_tokens=12, logprobs=5)


@pytest.fixture
def engine() -> Iterator[Engine]:
    model = Preparing(MODELS_DIR)(DEFAULT_MODEL)
    statuses: Queue[ModelStatus] = Queue()
    config = engine_config(MODELS_DIR, compute_dtype="float32", prefill_chunk=512)
    engine = Engine(config, lambda *_: model, load_backend, statuses.put)
    engine.start()
    while (status := statuses.get(timeout=WAIT_S)).phase is not ModelPhase.READY:
        assert status.phase is not ModelPhase.FAILED, status.message
    yield engine
    engine.stop()


def reply(engine: Engine, prompt: tuple[int, ...]) -> tuple[list[int], list[float], Finished]:
    events: Queue[Event] = Queue()
    engine.submit(GenerationRequest("r", prompt, PARAMS), events.put)
    ids, logprobs = [], []
    while not isinstance(event := events.get(timeout=WAIT_S), Finished):
        if isinstance(event, Delta):
            ids += event.token_ids
            logprobs += [each.logprob for each in event.logprobs]
    return ids, logprobs, event


def test_a_seed_writes_the_same_again_and_scoring_finds_what_sampling_saw(engine: Engine) -> None:
    assert engine.tokenizing is not None
    prompt = engine.tokenizing.tokenizer.encode_chat([ChatMessage("user", "Tell me about 온돌 😀.")]).ids
    ids, logprobs, first = reply(engine, prompt)
    again, _, second = reply(engine, prompt)
    assert again == ids
    assert second.usage.cached_tokens > first.usage.cached_tokens  # although much of it was not computed anew
    ends: Queue[ScoreEvent] = Queue()
    engine.score(ScoreRequest("s", prompt, tuple(ids), alternatives=5), ends.put)
    while not isinstance(end := ends.get(timeout=WAIT_S), ScoreEnd):
        pass
    assert end.scores is not None
    np.testing.assert_allclose(end.scores.logprobs, logprobs, atol=5e-3)
    pieces = engine.tokenizing.tokenizer.pieces.split(prompt)
    text = "".join(piece.text for piece in pieces)
    assert text.endswith("Tell me about 온돌 😀.<|im_end|>\n<|im_start|>assistant\n")
    assert len({piece.group for piece in pieces}) < len(pieces)
