"""The prefix cache against a plain model of it: the token tuples that each owner inserted."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inference.ownership import NOBODY, UNNAMED
from inference.prefix_cache import PrefixCache
from inference.token_blocks import Node, common_prefix
from tests.inference.doubles import TokenBlock

TOKENS = st.lists(st.integers(0, 2), max_size=14).map(tuple)
OWNERS = st.sampled_from([NOBODY, "a", "b", "c"])
BIG = 10**9


def copier(tokens: tuple[int, ...]):
    return lambda start, stop: TokenBlock(tokens[start:stop])


def matched(cache: PrefixCache, tokens: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(t for reuse in cache.match(tokens, UNNAMED) for t in reuse.block.tokens[: reuse.length])


def test_any_request_reuses_the_longest_prefix_that_an_earlier_one_computed() -> None:
    cache = PrefixCache(BIG, block_tokens=4)
    cache.insert((1, 2, 3, 4, 5, 6), copier((1, 2, 3, 4, 5, 6)))
    assert matched(cache, (1, 2, 3, 4, 5, 9)) == (1, 2, 3, 4, 5)
    assert matched(cache, (1, 2, 9)) == (1, 2)
    assert matched(cache, (7,)) == ()


def test_a_release_leaves_what_is_pinned_and_no_more_than_asked() -> None:
    cache = PrefixCache(BIG, block_tokens=2)
    cache.insert((1, 2, 3, 4), copier((1, 2, 3, 4)), pinned=True)
    for tokens in ((1, 2, 5, 6), (7, 8, 9, 10)):
        cache.insert(tokens, copier(tokens))
    assert cache.release(down_to=800) == 200
    assert matched(cache, (1, 2, 5, 6)) == (1, 2)  # the oldest leaf went first
    assert matched(cache, (7, 8, 9, 10)) == (7, 8, 9, 10)
    assert cache.release() == 400
    assert matched(cache, (1, 2, 3, 4)) == (1, 2, 3, 4)
    assert cache.nbytes == 400


def test_a_shared_beginning_is_copied_once() -> None:
    cache = PrefixCache(BIG, block_tokens=4)
    cache.insert((1, 2, 3, 4, 5), copier((1, 2, 3, 4, 5)))
    copied: list[tuple[int, int]] = []

    def copy(start: int, stop: int) -> TokenBlock:
        copied.append((start, stop))
        return TokenBlock((1, 2, 3, 4, 6)[start:stop])

    cache.insert((1, 2, 3, 4, 6), copy)
    assert copied == [(4, 5)]


def test_the_least_recently_used_leaf_goes_first() -> None:
    cache = PrefixCache(900, block_tokens=4)  # a token of the double is 100 bytes
    for tokens in ((1, 1, 1, 1), (2, 2, 2, 2)):
        cache.insert(tokens, copier(tokens))
    cache.match((1, 1, 1, 1))
    cache.insert((3, 3, 3, 3), copier((3, 3, 3, 3)))
    assert cache.peek((1, 1, 1, 1), UNNAMED) == 4
    assert cache.peek((2, 2, 2, 2), UNNAMED) == 0


def test_pinned_tokens_go_last() -> None:
    cache = PrefixCache(900, block_tokens=4)
    cache.insert((1, 1, 1, 1), copier((1, 1, 1, 1)), pinned=True)
    for number in range(2, 9):
        cache.insert((number,) * 4, copier((number,) * 4))
    assert cache.peek((1, 1, 1, 1), UNNAMED) == 4


def test_a_continued_pinned_block_stays_pinned() -> None:
    cache = PrefixCache(900, block_tokens=4)
    cache.insert((1, 1), copier((1, 1)), pinned=True)
    cache.insert((1, 1, 1, 1), copier((1, 1, 1, 1)))
    for number in range(2, 9):
        cache.insert((number,) * 4, copier((number,) * 4))
    assert cache.peek((1, 1), UNNAMED) == 2


def test_peeking_renews_nothing() -> None:
    cache = PrefixCache(900, block_tokens=4)
    for tokens in ((1, 1, 1, 1), (2, 2, 2, 2)):
        cache.insert(tokens, copier(tokens))
    cache.peek((1, 1, 1, 1), UNNAMED)
    cache.insert((3, 3, 3, 3), copier((3, 3, 3, 3)))
    assert cache.peek((1, 1, 1, 1), UNNAMED) == 0


def test_a_path_longer_than_the_bound_leaves_nothing_dangling() -> None:
    cache = PrefixCache(500, block_tokens=4)
    tokens = tuple(range(40))
    cache.insert(tokens, copier(tokens))
    assert cache.nbytes <= 500
    assert matched(cache, tokens) == tokens[: cache.peek(tokens, UNNAMED)]


def path_to(node: Node) -> tuple[int, ...]:
    return (*path_to(node.parent), *node.tokens) if node.parent is not None else ()


def test_forgetting_removes_what_only_one_conversation_read() -> None:
    cache = PrefixCache(BIG, block_tokens=4)
    cache.insert((1, 1, 1, 1, 2, 2), copier((1, 1, 1, 1, 2, 2)), owner="a")
    cache.insert((1, 1, 1, 1, 3), copier((1, 1, 1, 1, 3)), owner="b")
    cache.forget("a")
    assert cache.peek((1, 1, 1, 1, 2), UNNAMED) == 4
    assert cache.peek((1, 1, 1, 1, 3), UNNAMED) == 5
    cache.forget("b")
    assert len(cache) == cache.nbytes == 0


def test_forgetting_can_leave_what_other_prompts_of_the_conversation_read() -> None:
    cache = PrefixCache(BIG, block_tokens=4)
    cache.insert((1, 1, 1, 1, 2, 2), copier((1, 1, 1, 1, 2, 2)), owner="a")
    cache.insert((1, 1, 1, 1, 3, 3), copier((1, 1, 1, 1, 3, 3)), owner="a")
    cache.forget("a", keep=[(1, 1, 1, 1, 2, 2, 9), (1, 1, 1, 1, 3)])
    assert cache.peek((1, 1, 1, 1, 2, 2), UNNAMED) == 6
    assert cache.peek((1, 1, 1, 1, 3, 3), UNNAMED) == 4  # the block has a token that nobody reads any more
    cache.forget("a")
    assert len(cache) == 0


def test_the_system_prompt_survives_forgetting_without_the_text_that_followed_it() -> None:
    cache = PrefixCache(BIG, block_tokens=4)
    cache.insert((1, 1), copier((1, 1)), pinned=True)
    cache.insert((1, 1, 5, 5), copier((1, 1, 5, 5)), owner="a")
    cache.forget("a")
    cache.forget(NOBODY)
    assert cache.peek((1, 1, 5, 5), UNNAMED) == 2
    assert [node.tokens for node in cache._nodes.values()] == [(1, 1)]


def test_an_unfinished_block_of_another_conversation_is_not_shared_beyond_its_end() -> None:
    cache = PrefixCache(BIG, block_tokens=4)
    cache.insert((1, 1, 1), copier((1, 1, 1)), owner="a")
    cache.insert((1, 1), copier((1, 1)), owner="b")
    cache.forget("a")
    assert cache.peek((1, 1, 1), UNNAMED) == 2


def test_what_was_evicted_is_known_until_it_is_back() -> None:
    cache = PrefixCache(900, block_tokens=4)
    long, other = (1, 1, 1, 1, 2, 2), (3, 3, 3, 3)
    cache.insert(long, copier(long))
    assert not cache.was_evicted(long, UNNAMED)
    cache.insert(other, copier(other))
    assert cache.peek(long, UNNAMED) == 4
    assert cache.was_evicted((*long, 9), UNNAMED)
    assert not cache.was_evicted((1, 1, 1, 1, 7), UNNAMED)
    assert not cache.was_evicted(other, UNNAMED)
    cache.insert(long, copier(long))
    assert not cache.was_evicted(long, UNNAMED)


def test_of_a_conversation_that_is_forgotten_no_eviction_is_remembered() -> None:
    cache = PrefixCache(900, block_tokens=4)
    long, other = (1, 1, 1, 1, 2, 2), (3, 3, 3, 3)
    cache.insert(long, copier(long), owner="a")
    cache.insert(other, copier(other), owner="b")
    assert cache.was_evicted(long, UNNAMED)
    cache.forget("a")
    assert not cache.was_evicted(long, UNNAMED)


class Unbounded(RuleBasedStateMachine):
    """Without a bound: exactly the longest prefix of anything inserted and not forgotten is found."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(BIG, block_tokens=3)
        self.inserted: dict[str, set[tuple[int, ...]]] = defaultdict(set)

    @rule(tokens=TOKENS, owner=OWNERS)
    def insert(self, tokens: tuple[int, ...], owner: str) -> None:
        self.cache.insert(tokens, copier(tokens), owner=owner)
        self.inserted[owner].add(tokens)

    @rule(tokens=TOKENS)
    def pin(self, tokens: tuple[int, ...]) -> None:
        self.cache.insert(tokens, copier(tokens), pinned=True)
        self.inserted[NOBODY].add(tokens)

    @rule(owner=OWNERS)
    def forget(self, owner: str) -> None:
        self.cache.forget(owner)
        if owner != NOBODY:
            self.inserted.pop(owner, None)

    @rule(tokens=TOKENS)
    def match(self, tokens: tuple[int, ...]) -> None:
        known = [other for inserted in self.inserted.values() for other in inserted]
        longest = max((common_prefix(tokens, other) for other in known), default=0)
        assert matched(self.cache, tokens) == tokens[:longest]
        assert not self.cache.was_evicted(tokens, UNNAMED)


class Bounded(RuleBasedStateMachine):
    """With a bound: never over it, never wrong tokens, and nothing that none of its owners read."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(1_500, block_tokens=3)
        self.inserted: dict[str, set[tuple[int, ...]]] = defaultdict(set)

    @rule(tokens=TOKENS, pinned=st.booleans(), owner=OWNERS)
    def insert(self, tokens: tuple[int, ...], pinned: bool, owner: str) -> None:
        self.cache.insert(tokens, copier(tokens), pinned=pinned, owner=NOBODY if pinned else owner)
        self.inserted[NOBODY if pinned else owner].add(tokens)

    @rule(owner=OWNERS)
    def forget(self, owner: str) -> None:
        self.cache.forget(owner)
        if owner != NOBODY:
            self.inserted.pop(owner, None)

    @rule(tokens=TOKENS)
    def match(self, tokens: tuple[int, ...]) -> None:
        found = matched(self.cache, tokens)
        assert found == tokens[: len(found)]

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        assert len(self.cache) == 0

    @invariant()
    def the_bytes_are_within_the_bound_and_counted_right(self) -> None:
        assert self.cache.nbytes <= 1_500
        assert self.cache.nbytes == sum(node.nbytes for node in self.cache._nodes.values())

    @invariant()
    def every_block_was_read_whole_by_each_of_its_owners(self) -> None:
        for node in self.cache._nodes.values():
            path = path_to(node)
            assert node.owners
            for owner in node.owners:
                assert any(tokens[: len(path)] == path for tokens in self.inserted[owner])

    @invariant()
    def nodes_hang_together(self) -> None:
        for name, node in self.cache._nodes.items():
            assert node.name == name
            assert node.parent is not None
            assert node.parent.children[node.tokens] is node


TestUnbounded = Unbounded.TestCase
TestUnbounded.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBounded = Bounded.TestCase
TestBounded.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
