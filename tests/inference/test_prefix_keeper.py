"""The prefix cache over the life of engines: kept, restored, forgotten, and why it was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest

from inference.block_files import read_header
from inference.ownership import UNNAMED, person_of
from inference.prefix_cache import PrefixCache
from inference.prefix_keeper import PrefixKeeper
from inference.prefix_store import INDEX
from inference.tokenization import ChatTokenizer
from inference.types import Event, Finished, GenerationRequest, ModelPhase, SamplingParams
from tests.inference.doubles import ScriptedBackend, TokenBlock, prepare_double
from tests.inference.test_engine import Running, collect, last_of

WAIT_S = 20
BIG = 10**9
TEXT = "a long question that fills several blocks of tokens " * 3


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts engines that keep their prefix cache in `tmp_path / "cache"`."""
    started: list[Running] = []

    def make(**changes: object) -> Running:
        running = Running(tmp_path / "model", **{"prefix_cache_dir": tmp_path / "cache", **changes})
        started.append(running)
        return running.start()

    yield make
    assert all(running.engine.stop() for running in started)


def ask(running: Running, prompt: tuple[int, ...], owner: str, reusable: int = 0) -> Finished:
    return last_of(collect(submit(running, prompt, owner, reusable)))


def submit(running: Running, prompt: tuple[int, ...], owner: str, reusable: int = 0) -> Queue[Event]:
    events: Queue[Event] = Queue()
    params = SamplingParams(temperature=0, max_tokens=100)
    request = GenerationRequest(
        owner, prompt, params, owner=owner, reader=person_of(owner), reusable_tokens=reusable
    )
    running.engine.submit(request, events.put)
    return events


def stored_tokens(folder: Path) -> list[tuple[int, ...]]:
    return [read_header(path).tokens for path in folder.glob("*.safetensors")]


def wait_until_stored(running: Running, folder: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while running.engine._cache.next_unstored() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert (folder / INDEX).exists()


def test_the_first_reply_after_a_restart_is_as_warm_as_before(start: Callable[..., Running]) -> None:
    first = start()
    prompt = first.prompt(TEXT)
    ask(first, prompt, "a")
    warm = ask(first, prompt, "a")
    first.engine.stop()
    again = start()
    assert again.engine.cached_tokens(prompt, UNNAMED) == len(prompt)
    restarted = ask(again, prompt, "a")
    assert restarted.usage == warm.usage
    assert restarted.usage.cached_tokens == len(prompt) - 1


def test_the_system_prompt_is_not_computed_again_after_a_restart(start: Callable[..., Running]) -> None:
    first = start()
    first.engine.stop()
    again = Running(first.engine.config.models_dir, prefix_cache_dir=first.engine.config.prefix_cache_dir)
    again.engine.start()
    again.wait_for(ModelPhase.READY)
    assert again.backend.computed == []
    assert again.engine.stop()


def test_nothing_is_kept_without_a_folder(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start(prefix_cache_dir=None)
    ask(running, running.prompt(TEXT), "a")
    running.engine.forget("a")
    running.engine.stop()
    assert not (tmp_path / "cache").exists()


def test_what_no_conversation_asked_for_is_not_kept(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start()
    prompt = running.prompt(TEXT)
    ask(running, prompt, "")
    running.engine.stop()
    assert sum(map(len, stored_tokens(tmp_path / "cache"))) == len("<system\nBe brief.>\n<user\n")


def test_other_models_blocks_are_not_taken(start: Callable[..., Running], tmp_path: Path) -> None:
    first = start()
    prompt = first.prompt(TEXT)
    ask(first, prompt, "a")
    first.engine.stop()
    other = Running(tmp_path / "other model", prefix_cache_dir=tmp_path / "cache").start()
    assert other.engine.cached_tokens(prompt, UNNAMED) == len("<system\nBe brief.>\n<user\n")
    other.engine.forget("a")
    other.engine.stop()
    assert start().engine.cached_tokens(prompt, UNNAMED) == len("<system\nBe brief.>\n<user\n")


def test_a_deleted_conversation_leaves_neither_block_nor_file(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    running, folder = start(), tmp_path / "cache"
    common, own, others = running.prompt(TEXT), running.prompt(TEXT + "%#@"), running.prompt(TEXT + "!")
    ask(running, own, "a")
    ask(running, others, "b")
    wait_until_stored(running, folder)
    assert running.engine.tokenizing is not None
    alone = set(running.engine.tokenizing.tokenizer.encode_text("%#@"))
    assert any(alone <= set(tokens) for tokens in stored_tokens(folder))
    running.engine.forget("a")
    kept = running.engine._cache._nodes.values()
    for tokens in [*stored_tokens(folder), *(node.tokens for node in kept)]:
        assert not set(tokens) & alone
    assert running.engine.cached_tokens(others, UNNAMED) == len(others)
    running.engine.stop()
    again = start()
    assert again.engine.cached_tokens(others, UNNAMED) == len(others)
    assert again.engine.cached_tokens(own, UNNAMED) < len(common)
    again.engine.forget("b")
    again.engine.stop()
    assert sum(map(len, stored_tokens(folder))) == len("<system\nBe brief.>\n<user\n")


def test_a_conversation_can_be_forgotten_while_the_model_loads(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    first = start()
    prompt = first.prompt(TEXT)
    ask(first, prompt, "a")
    first.engine.stop()
    loading = Running(tmp_path / "model", threading.Semaphore(0), prefix_cache_dir=tmp_path / "cache")
    loading.engine.forget("a")
    assert sum(map(len, stored_tokens(tmp_path / "cache"))) == len("<system\nBe brief.>\n<user\n")
    assert start().engine.cached_tokens(prompt, UNNAMED) == len("<system\nBe brief.>\n<user\n")


def test_a_reply_that_ends_after_its_conversation_was_forgotten_can_be_forgotten_again(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    running = start()
    prompt = running.prompt(TEXT)
    events = submit(running, prompt, "a")
    running.engine.forget("a")
    collect(events)
    running.engine.forget("a")
    assert running.engine.cached_tokens(prompt, UNNAMED) == len("<system\nBe brief.>\n<user\n")


def test_the_disk_follows_what_is_evicted(start: Callable[..., Running], tmp_path: Path) -> None:
    running, folder = start(prefix_cache_bytes=40_000), tmp_path / "cache"
    for name in "abcdefgh":
        ask(running, running.prompt(name + TEXT), name)
        wait_until_stored(running, folder)
    running.engine.stop()
    stored = stored_tokens(folder)
    assert 0 < sum(map(len, stored)) * 100 <= 40_000
    assert sum(path.stat().st_size for path in folder.glob("*.safetensors")) <= 40_000


def test_blocks_are_stored_one_at_a_time_so_that_a_request_waits_for_one_at_most(tmp_path: Path) -> None:
    cache, tokens = PrefixCache(BIG), tuple(range(100))
    keeper = PrefixKeeper(cache, tmp_path / "cache")
    prepared = prepare_double(tmp_path / "model")
    keeper.restore(ScriptedBackend(ChatTokenizer.load(prepared), str), prepared)
    assert not keeper.save_next()
    cache.insert(tokens, lambda start, stop: TokenBlock(tokens[start:stop]), owner="a")
    for number in range(4):
        assert len(stored_tokens(tmp_path / "cache")) == number
        assert keeper.save_next()
    assert not keeper.save_next()


def test_a_full_disk_costs_the_cache_and_no_reply(start: Callable[..., Running], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    running = start()
    prompt = running.prompt(TEXT)
    ask(running, prompt, "a")
    assert ask(running, prompt, "a").usage.cached_tokens == len(prompt) - 1
    running.engine.forget("a")
    assert running.engine.cached_tokens(prompt, UNNAMED) == len("<system\nBe brief.>\n<user\n")


def test_an_eviction_is_told_to_whom_it_cost(start: Callable[..., Running]) -> None:
    running = start(prefix_cache_bytes=40_000, prefix_cache_dir=None)
    prompt = running.prompt("a" + TEXT)
    first = ask(running, prompt, "a")
    known = first.usage.prompt_tokens + first.usage.completion_tokens - 1
    assert ask(running, prompt, "a", known).reuse_lost is None
    for name in "bcd":
        assert ask(running, running.prompt(name + TEXT), name).reuse_lost is None
    assert ask(running, prompt, "a", known).reuse_lost == "it was evicted to make room for other chats"


def test_a_restart_that_lost_the_cache_is_told_once(start: Callable[..., Running]) -> None:
    running = start(prefix_cache_dir=None)
    prompt = running.prompt(TEXT)
    known = len(prompt) + 10
    assert ask(running, prompt, "a", known).reuse_lost == "the server was restarted"
    assert ask(running, prompt, "a", known).reuse_lost is None


def test_nothing_is_claimed_that_is_not_known(start: Callable[..., Running]) -> None:
    running = start(prefix_cache_dir=None)
    ask(running, running.prompt("b" + TEXT), "a")
    assert ask(running, running.prompt("a" + TEXT), "a", 100).reuse_lost is None
