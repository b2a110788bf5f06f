"""Shared system prompts: computed while nobody waits, within bounds, and forgotten when no longer shared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest

from inference.ownership import UNNAMED
from inference.types import ChatMessage, Event, GenerationRequest, ModelPhase, Prefill, SamplingParams
from tests.inference.test_engine import WAIT_S, Running, collect, last_of, text_of

GARDEN = "You are a patient gardener who answers in one sentence, and names the plants."
KITCHEN = "You are a cook. Say what to do first, then what to do next, and never use salt."
PROMPT_BYTES = 100 * 100
"""More than the KV of one of these in the double: 100 bytes a token, one token a character."""

Start = Callable[..., Running]


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
        assert running.engine.stop()


def prompt(running: Running, system: str, text: str = "hello") -> tuple[int, ...]:
    assert running.engine.tokenizing is not None
    chat = [ChatMessage("system", system), ChatMessage("user", text)]
    return running.engine.tokenizing.tokenizer.encode_chat(chat).ids


def system_tokens(system: str) -> int:
    """<|im_start|>system↵ text <|im_end|>↵ <|im_start|>user↵, one token a byte but the special ones."""
    return 1 + len("system\n") + len(system) + 1 + 1 + 1 + len("user\n")


def wait_until_cached(running: Running, system: str, tokens: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while running.engine.cached_tokens(prompt(running, system), UNNAMED) != tokens:
        assert time.monotonic() < deadline, running.engine.cached_tokens(prompt(running, system), UNNAMED)
        time.sleep(0.005)


def test_the_first_chat_with_a_shared_prompt_finds_it_computed(start: Start) -> None:
    running = start().start()
    running.engine.share([GARDEN, KITCHEN])
    for system in (GARDEN, KITCHEN):
        wait_until_cached(running, system, system_tokens(system))
        events = collect(running.submit(system, prompt(running, system)))
        assert text_of(events) == "hellohello"
        assert last_of(events).usage.cached_tokens == system_tokens(system)


def test_what_was_shared_before_the_model_was_loaded_is_computed_too(start: Start) -> None:
    running = start()
    running.engine.share([GARDEN])
    running.start()
    wait_until_cached(running, GARDEN, system_tokens(GARDEN))


def test_a_prompt_that_is_no_longer_shared_is_forgotten_and_the_own_one_is_not(start: Start) -> None:
    running = start().start()
    running.engine.share([GARDEN])
    wait_until_cached(running, GARDEN, system_tokens(GARDEN))
    running.engine.share([KITCHEN])
    wait_until_cached(running, KITCHEN, system_tokens(KITCHEN))
    assert running.engine.cached_tokens(prompt(running, GARDEN), UNNAMED) < len("<system\nYou are a p")
    assert running.engine.cached_tokens(prompt(running, "Be brief."), UNNAMED) == system_tokens("Be brief.")


def test_a_chat_keeps_its_own_when_its_prompt_is_no_longer_shared(start: Start) -> None:
    running = start(prefix_cache_bytes=40 * PROMPT_BYTES).start()
    running.engine.share([GARDEN])
    wait_until_cached(running, GARDEN, system_tokens(GARDEN))
    asked = prompt(running, GARDEN)
    events: Queue[Event] = Queue()
    params = SamplingParams(temperature=0, max_tokens=100)
    running.engine.submit(GenerationRequest("r", asked, params, owner="conversation"), events.put)
    collect(events)
    running.engine.share([])
    running.engine.share([KITCHEN])
    wait_until_cached(running, KITCHEN, system_tokens(KITCHEN))
    assert running.engine.cached_tokens(asked, UNNAMED) == len(asked)
    running.engine.forget("conversation")
    assert running.engine.cached_tokens(asked, UNNAMED) < len("<system\nYou are a p")


def test_shared_prompts_take_half_of_the_cache_at_most_and_the_first_ones_are_there(start: Start) -> None:
    running = start(prefix_cache_bytes=3 * PROMPT_BYTES).start()
    running.engine.share([GARDEN, KITCHEN, "Be kind."])
    wait_until_cached(running, GARDEN, system_tokens(GARDEN))
    running.engine.share([KITCHEN, GARDEN])
    wait_until_cached(running, KITCHEN, system_tokens(KITCHEN))
    assert running.engine.cached_tokens(prompt(running, GARDEN), UNNAMED) < system_tokens(GARDEN)
    collect(running.submit("any", running.prompt("still served")))


def test_one_chunk_is_all_that_somebody_who_comes_waits_for(start: Start) -> None:
    pace = threading.Semaphore(100)
    running = start(pace).start()
    while pace.acquire(blocking=False):
        pass
    running.backend.computed.clear()
    running.engine.share([GARDEN + KITCHEN])
    pace.release()
    deadline = time.monotonic() + WAIT_S
    while not running.backend.computed:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    events = running.submit("somebody", running.prompt("hi"))
    pace.release(2)  # the chunk that is being computed, then theirs
    while not isinstance(events.get(timeout=WAIT_S), Prefill):
        pass
    pace.release(100_000)
    wait_until_cached(running, GARDEN + KITCHEN, system_tokens(GARDEN + KITCHEN))


def test_a_failure_while_computing_ahead_harms_nobody(start: Start) -> None:
    running = start().start()
    running.backend.fail_with = RuntimeError("no")
    running.engine.share([GARDEN, KITCHEN])
    wait_until_cached(running, KITCHEN, system_tokens(KITCHEN))
    assert running.engine.status.phase is ModelPhase.READY
    assert text_of(collect(running.submit("a", prompt(running, GARDEN)))) == "hellohello"
