"""The cache, drafts and company must change the time and nothing else: the engine with a tiny Llama, and with
the real model, on either backend.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import platformdirs
import pytest

from inference.backends import load_backend
from inference.config import EngineConfig
from inference.context import fit
from inference.engine import Engine
from inference.models.locate import prepare
from inference.models.prepared import PreparedModel, Progress
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
from tests.inference.backends.native.models import write_model
from tests.inference.backends.tiny import write_tiny_llama

WAIT_S = 300
MODELS = platformdirs.user_cache_path("ondol", appauthor=False) / "models"


def start_engine(model: str, models_dir: Path, **changes: object) -> Engine:
    def prepare_model(config: EngineConfig, progress: Progress, cancelled: threading.Event) -> PreparedModel:
        return prepare(config.model, models_dir=config.models_dir, progress=progress, cancelled=cancelled)

    statuses: Queue[ModelStatus] = Queue()
    config = EngineConfig(model=model, models_dir=models_dir, **changes)  # type: ignore[arg-type]
    engine = Engine(config, prepare_model, load_backend, statuses.put)
    engine.start()
    while (status := statuses.get(timeout=WAIT_S)).phase is not ModelPhase.READY:
        assert status.phase is not ModelPhase.FAILED, status.message
    return engine


def ask(engine: Engine, history: list[ChatMessage], question: str) -> tuple[int, ...]:
    """The prompt of a question."""
    assert engine.tokenizing is not None
    tokenizing = engine.tokenizing
    return fit(
        tokenizing.tokenizer,
        engine.config.system_prompt,
        history,
        question,
        window=tokenizing.model.context_window,
    ).prompt_ids


def submit(engine: Engine, name: str, prompt: tuple[int, ...], params: SamplingParams) -> Queue[Event]:
    events: Queue[Event] = Queue()
    engine.submit(GenerationRequest(name, prompt, params, owner="conversation"), events.put)
    return events


def follow(events: Queue[Event]) -> tuple[ChatMessage, Finished]:
    """The reply as a message that the next turn can carry, and its end."""
    text, ids = "", ()
    while True:
        event = events.get(timeout=WAIT_S)
        if isinstance(event, Delta):
            text, ids = text + event.text, ids + event.token_ids
        elif isinstance(event, Finished):
            return ChatMessage("assistant", text, ids), event


def generate(
    engine: Engine, history: list[ChatMessage], question: str, **params: object
) -> tuple[ChatMessage, Finished]:
    sampling = SamplingParams(**{"temperature": 0, "max_tokens": 20, **params})  # type: ignore[arg-type]
    return follow(submit(engine, "r", ask(engine, history, question), sampling))


def converse(engine: Engine, questions: list[str], **params: object) -> list[tuple[ChatMessage, Finished]]:
    history: list[ChatMessage] = []
    replies = []
    for question in questions:
        reply, finished = generate(engine, history, question, **params)
        history += [ChatMessage("user", question), reply]
        replies.append((reply, finished))
    return replies


GREEDY = SamplingParams(temperature=0, max_tokens=16)
THINGS = """
rivers snow bread Korea music trains bees stones clocks rain maps tea glass wolves paper salt
bridges wool islands fire moss chess lamps gardens ships horses sugar iron clouds sleep doors rice
kites tigers ink deserts soap bells corn whales cotton castles honey sand owls pianos boats apples
storms roofs
"""
GENERAL = {"backend": "transformers", "compute_dtype": "float32"}
NATIVE = {"backend": "native"}
BOTH = pytest.mark.parametrize("tiny", ["general", "native"], indirect=True)


@pytest.fixture(scope="module")
def tiny(
    request: pytest.FixtureRequest, library: ctypes.CDLL, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Engine]:
    """Starts an engine with a tiny model on one of the backends."""
    folder = tmp_path_factory.mktemp("tiny")
    if request.param == "general":
        model, own = write_tiny_llama(folder), GENERAL
    else:
        model, own = write_model(folder / "m.gguf", "llama", std=0.2), NATIVE
    return lambda models_dir, **changes: start_engine(str(model), models_dir, **{**own, **changes})


@pytest.fixture(scope="module", params=["transformers + bitsandbytes", "native"])
def real(request: pytest.FixtureRequest, library: ctypes.CDLL) -> Iterator[Engine]:
    engine = start_engine("smollm2-135m", MODELS, **(NATIVE if request.param == "native" else GENERAL))
    assert engine.description is not None
    assert engine.description.backend == request.param
    yield engine
    assert engine.stop()


@BOTH
@pytest.mark.parametrize(
    "params", [{}, {"temperature": 1.0, "seed": 11}, {"temperature": 0.8, "top_k": 5, "seed": 3}]
)
def test_the_tiny_model_says_the_same_with_and_without_the_cache(
    tiny: Callable[..., Engine], tmp_path: Path, params: dict[str, object]
) -> None:
    questions = ["Hello?", "And then?", "Once more?"]
    texts = {}
    for name, size in (("with", 10**8), ("without", 0)):
        engine = tiny(tmp_path, prefix_cache_bytes=size, prefill_chunk=16)
        replies = converse(engine, questions, **params)
        texts[name] = [reply.token_ids for reply, _ in replies]
        cached = [finished.usage.cached_tokens for _, finished in replies]
        assert all(cached) if size else not any(cached)
        assert engine.stop()
    assert texts["with"] == texts["without"]


@BOTH
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 0.7, "top_k": 2, "seed": 5},
        {"temperature": 0.7, "top_k": 2, "seed": 5, "frequency_penalty": -0.3},
    ],
)
def test_the_tiny_model_says_the_same_with_and_without_drafts(
    tiny: Callable[..., Engine], tmp_path: Path, params: dict[str, object]
) -> None:
    questions = ["abcabcabcabcabcabc", "And abcabcabc?", "abc abc abc"]
    said, drafted = {}, {}
    for mode in ("on", "off"):
        engine = tiny(tmp_path, speculation=mode)
        replies = converse(engine, questions, max_tokens=40, **params)
        said[mode] = [reply.token_ids for reply, _ in replies]
        drafted[mode] = sum(finished.timings.drafted_tokens for _, finished in replies)
        assert engine.stop()
    assert said["on"] == said["off"]
    assert drafted["on"] > 0
    assert drafted["off"] == 0


@BOTH
def test_the_tiny_model_says_the_same_alone_and_beside_others(
    tiny: Callable[..., Engine], tmp_path: Path
) -> None:
    """Seven chats on three places: whatever joins, leaves, is read or stopped meanwhile."""
    engine = tiny(tmp_path, prefill_chunk=16, max_sequences=3, prefix_cache_bytes=0)
    lengths = (1, 20, 3, 9, 14, 30, 6)
    requests = [
        (ask(engine, [], "x" * (7 * number) + "?"), SamplingParams(temperature=0, max_tokens=length))
        for number, length in enumerate(lengths)
    ]
    alone = [follow(submit(engine, f"alone {i}", *request)) for i, request in enumerate(requests)]
    together = [submit(engine, f"together {i}", *request) for i, request in enumerate(requests)]
    submit(engine, "stopped", *requests[5])
    engine.abort("stopped")
    assert [follow(events)[0].token_ids for events in together] == [reply.token_ids for reply, _ in alone]
    assert engine.stop()


@pytest.mark.parametrize(
    ("tiny", "own"),
    [("general", {}), ("general", {"compute_dtype": "bfloat16"}), ("native", {})],
    indirect=["tiny"],
)
def test_the_tiny_model_is_warm_after_a_restart_and_says_the_same(
    tiny: Callable[..., Engine], tmp_path: Path, own: dict[str, object]
) -> None:
    kept: dict[str, object] = {"prefix_cache_dir": tmp_path / "cache", **own}
    engine = tiny(tmp_path, **kept)
    reply, _ = generate(engine, [], "Hello?")
    history = [ChatMessage("user", "Hello?"), reply]
    said, _ = generate(engine, history, "And then?")
    _, warm = generate(engine, history, "And then?")
    assert engine.stop()
    restarted = tiny(tmp_path, **kept)
    said_again, warm_again = generate(restarted, history, "And then?")
    assert restarted.stop()
    uncached = tiny(tmp_path, prefix_cache_bytes=0, **own)
    said_without, cold = generate(uncached, history, "And then?")
    assert uncached.stop()
    assert warm_again.usage.cached_tokens == warm.usage.cached_tokens == warm.usage.prompt_tokens - 1
    assert cold.usage.cached_tokens == 0
    if not own:  # bfloat16 rounds differently when a prompt is computed in other chunks
        assert said_again == said == said_without


@BOTH
def test_the_next_turn_of_the_tiny_model_computes_only_what_is_new(
    tiny: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = tiny(tmp_path)
    (_, first), (_, second) = converse(engine, ["Hello?", "And then?"])
    assert engine.stop()
    known = first.usage.prompt_tokens + first.usage.completion_tokens
    # The last token was sampled and never computed, unless the reply ended with a token that is not part of
    # it.
    assert second.usage.cached_tokens in (known - 1, known)


def test_the_real_model_knows_the_capital_of_france_with_and_without_the_cache(real: Engine) -> None:
    question = "What is the capital of France?"
    cold, first = generate(real, [], question, max_tokens=12)
    warm, second = generate(real, [], question, max_tokens=12)
    assert "Paris" in cold.text
    assert warm.token_ids == cold.token_ids
    assert first.usage.cached_tokens > 0  # the system prompt
    assert second.usage.cached_tokens == second.usage.prompt_tokens - 1


def test_fifty_second_turns_of_the_real_model_are_the_same_with_and_without_the_cache(
    library: ctypes.CDLL,
) -> None:
    """On the native backend, greedy: none differs, also where eight of them are written together."""
    questions = [f"Tell me about {thing}." for thing in THINGS.split()]
    said, cached = {}, {}
    for name, size in (("with", 10**9), ("without", 0)):
        engine = start_engine(
            "smollm2-135m", MODELS, prefix_cache_bytes=size, max_waiting=len(questions), **NATIVE
        )
        histories: list[list[ChatMessage]] = [[] for _ in questions]
        for turn in questions, ["And what else?"] * len(questions):
            asked = [
                submit(engine, f"{place}", ask(engine, history, question), GREEDY)
                for place, (history, question) in enumerate(zip(histories, turn, strict=True))
            ]
            replies = [follow(events) for events in asked]
            for history, question, (reply, _) in zip(histories, turn, replies, strict=True):
                history += [ChatMessage("user", question), reply]
        said[name] = [[message.token_ids for message in history] for history in histories]
        cached[name] = [finished.usage.cached_tokens for _, finished in replies]
        assert engine.stop()
    assert said["with"] == said["without"]
    assert min(cached["with"]) > 20
    assert not any(cached["without"])


def test_what_the_real_model_runs_on_is_told(real: Engine) -> None:
    assert real.description is not None
    native = real.description.backend == "native"
    assert real.description.compute_dtype == ("int8/float32" if native else "float32")
    assert ("Q4_1" if native else "NF4") in real.description.quantization
    assert round(real.description.parameters / 1e6, 1) == 134.5
    # 30 layers x 3 heads x 64 x keys and values x bytes of a value
    assert real.description.kv_bytes_per_token == 30 * 3 * 64 * 2 * (2 if native else 4)
