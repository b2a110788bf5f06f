"""What one person finds cached never depends on what another has computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from inference.ownership import UNNAMED, alone, owner_of
from inference.prefix_cache import PrefixCache
from inference.types import Event, Finished, GenerationRequest, SamplingParams
from tests.inference.doubles import TokenBlock
from tests.inference.test_engine import Running, collect, last_of

BIG = 10**9
TEXT = "the spare key lies under the third stone, and nobody else has to know of it "
SYSTEM = len("<system\nBe brief.>\n<user\n")

Tokens = tuple[int, ...]
TEXTS = st.sampled_from([(0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 1, 1, 1), (0, 0, 1, 1, 1, 1, 1)])
TOKENS = st.builds(lambda text, length: text[:length], TEXTS, st.integers(0, 7))
"""Beginnings of a few texts that begin alike: people meet often."""
PREFIXES = st.lists(TOKENS, max_size=2)
HERS = [owner_of("minji", "m1"), owner_of("minji", "m2"), owner_of(UNNAMED, "o1")]
HIS = [owner_of("jun", "j1"), owner_of("jun", "j2")]


def copier(tokens: Tokens) -> Callable[[int, int], TokenBlock]:
    return lambda start, stop: TokenBlock(tokens[start:stop])


def matched(cache: PrefixCache, tokens: Tokens, reader: str | None) -> Tokens:
    return tuple(t for reuse in cache.match(tokens, reader) for t in reuse.block.tokens[: reuse.length])


class Apart(RuleBasedStateMachine):
    """The cache of a house, and one beside it that is told nothing of what others than Jun do for
    themselves: for Jun they are the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.house = PrefixCache(BIG, block_tokens=3)
        self.beside = PrefixCache(BIG, block_tokens=3)

    @rule(tokens=TOKENS, owner=st.sampled_from(HERS))
    def others_ask(self, tokens: Tokens, owner: str) -> None:
        self.house.insert(tokens, copier(tokens), owner=owner)

    @rule(conversation=st.sampled_from(["m1", "m2", "o1"]), keep=PREFIXES)
    def others_delete(self, conversation: str, keep: list[Tokens]) -> None:
        self.house.forget(conversation, keep)

    @rule(tokens=TOKENS, owner=st.sampled_from(HIS))
    def he_asks(self, tokens: Tokens, owner: str) -> None:
        grown = []
        for cache in (self.house, self.beside):
            before = cache.nbytes
            cache.insert(tokens, copier(tokens), owner=owner)
            grown.append(cache.nbytes - before)
        assert grown[0] == grown[1]
        assert matched(self.house, tokens, "jun") == matched(self.house, tokens, alone(owner)) == tokens

    @rule(conversation=st.sampled_from(["j1", "j2"]), keep=PREFIXES)
    def he_deletes(self, conversation: str, keep: list[Tokens]) -> None:
        for cache in (self.house, self.beside):
            cache.forget(conversation, keep)

    @rule(tokens=TOKENS)
    def a_prompt_is_pinned(self, tokens: Tokens) -> None:
        for cache in (self.house, self.beside):
            cache.insert(tokens, copier(tokens), pinned=True)
            assert cache.pinned_tokens(tokens) == len(tokens)

    @rule(prefixes=PREFIXES)
    def others_are_shared(self, prefixes: list[Tokens]) -> None:
        for cache in (self.house, self.beside):
            cache.repin(prefixes)
        for prefix in prefixes:
            assert self.house.pinned_tokens(prefix) == self.beside.pinned_tokens(prefix)

    @rule(tokens=TOKENS, reader=st.sampled_from([None, "jun", *map(alone, HIS)]))
    def he_looks(self, tokens: Tokens, reader: str | None) -> None:
        seen = matched(self.house, tokens, reader)
        assert seen == matched(self.beside, tokens, reader) == tokens[: self.house.peek(tokens, reader)]
        assert not self.house.was_evicted(tokens, reader)


TestApart = Apart.TestCase
TestApart.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_what_two_people_say_is_kept_once_and_goes_with_the_last_of_them() -> None:
    cache, tokens = PrefixCache(BIG, block_tokens=4), (1, 2, 3, 4, 5)
    copied: list[int] = []

    def copy(start: int, stop: int) -> TokenBlock:
        copied.append(start)
        return TokenBlock(tokens[start:stop])

    for owner in (HERS[0], HIS[0]):
        cache.insert(tokens, copy, owner=owner)
    assert copied == [0, 4]
    cache.forget("m1")
    assert cache.peek(tokens, "minji") == 0
    assert cache.peek(tokens, "jun") == 5
    cache.forget("j1")
    assert len(cache) == cache.nbytes == 0


def test_one_conversation_alone_reuses_none_of_its_persons_others() -> None:
    cache, tokens = PrefixCache(BIG, block_tokens=4), (1, 2, 3, 4, 5)
    cache.insert(tokens, copier(tokens), owner=HERS[0])
    assert cache.peek(tokens, alone(HERS[0])) == cache.peek(tokens, "minji") == 5
    assert cache.peek(tokens, alone(HERS[1])) == 0


def test_what_others_lost_is_no_reason_and_what_one_lost_is_it_though_others_have_it() -> None:
    cache = PrefixCache(500, block_tokens=4)  # a token of the double is 100 bytes
    hers, both = (1, 1, 1, 1, 1), (2, 2, 2, 2, 2)
    cache.insert(hers, copier(hers), owner=HERS[0])
    cache.insert(both, copier(both), owner=HIS[0])
    assert cache.was_evicted(hers, "minji")
    assert not cache.was_evicted(hers, "jun")
    cache.insert((3, 3, 3, 3), copier((3, 3, 3, 3)), owner=HIS[1])
    assert cache.was_evicted(both, "jun")
    cache.insert(both, copier(both), owner=HERS[0])
    assert cache.peek(both, "jun") < len(both)
    assert cache.was_evicted(both, "jun")
    assert not cache.was_evicted(both, "minji")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Running]]:
    """Starts engines that keep their prefix cache on one disk."""
    started: list[Running] = []

    def make() -> Running:
        running = Running(tmp_path / "model", prefix_cache_dir=tmp_path / "cache")
        started.append(running)
        return running.start()

    yield make
    assert all(running.engine.stop() for running in started)


def ask(running: Running, prompt: Tokens, person: str, conversation: str, reusable: int = 0) -> Finished:
    events: Queue[Event] = Queue()
    params = SamplingParams(temperature=0, max_tokens=100)
    owner = owner_of(person, conversation)
    request = GenerationRequest(
        conversation, prompt, params, owner=owner, reader=person, reusable_tokens=reusable
    )
    running.engine.submit(request, events.put)
    return last_of(collect(events))


def test_people_compute_for_themselves_what_others_computed_also_after_a_restart(
    start: Callable[[], Running],
) -> None:
    running = start()
    prompt = running.prompt(TEXT)
    ask(running, prompt, "minji", "m1")
    for reader, cached in (("jun", SYSTEM), (UNNAMED, SYSTEM), (None, SYSTEM), ("minji", len(prompt))):
        assert running.engine.cached_tokens(prompt, reader) == cached
    running.engine.stop()
    again = start()
    assert again.engine.stored_conversations() == {"m1"}
    assert again.engine.cached_tokens(prompt, "minji") == len(prompt)
    first = ask(again, prompt, "jun", "j1")
    assert first.usage.cached_tokens == SYSTEM
    assert first.reuse_lost is None
    known = first.usage.prompt_tokens + first.usage.completion_tokens - 1
    second = ask(again, prompt, "jun", "j1", known)
    assert second.usage.cached_tokens == len(prompt) - 1
    assert second.reuse_lost is None
    again.engine.forget("m1")
    assert again.engine.cached_tokens(prompt, "minji") == SYSTEM
    assert again.engine.stored_conversations() <= {"j1"}
    assert again.engine.cached_tokens(prompt, "jun") == len(prompt)
