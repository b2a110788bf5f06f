"""Keys and values that were computed once, kept for whoever begins with the same tokens. Worker thread only.

A tree of token blocks: every node holds a copy of the KV of up to `block_tokens` tokens, and the path from
the root to it spells the tokens that came before, so that one copy serves every conversation with that
beginning. Nodes are copies, never views of a running sequence's cache: evicting one is always safe.

`match` reads (and renews what it used), `insert` adds, and eviction keeps the bytes within the bound after
each block: the least recently used leaf goes first, pinned ones (the system prompt) last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from inference.backends.base import KVBlock

Tokens: TypeAlias = tuple[int, ...]
BLOCK_TOKENS = 32


class Reuse(NamedTuple):
    """The first `length` tokens of a cached block are the next ones of a prompt."""

    block: KVBlock
    length: int


@dataclass(frozen=True, slots=True)
class _NoTokens:
    """What the root holds."""

    length: int = 0
    nbytes: int = 0


@dataclass(slots=True, eq=False)
class _Node:
    tokens: Tokens
    block: KVBlock
    parent: _Node | None
    children: dict[Tokens, _Node] = field(default_factory=dict)
    pinned: bool = False
    last_used: int = 0

    def nearest(self, tokens: Tokens) -> tuple[_Node | None, int]:
        """The child that shares the longest beginning with `tokens`, and how long that is."""
        exact = self.children.get(tokens)
        if exact is not None:
            return exact, len(tokens)
        shared = ((child, common_prefix(child.tokens, tokens)) for child in self.children.values())
        return max(shared, key=lambda pair: pair[1], default=(None, 0))


class PrefixCache:
    """Blocks of KV by the tokens that lead to them, bounded in bytes."""

    def __init__(self, capacity_bytes: int, block_tokens: int = BLOCK_TOKENS) -> None:
        self.capacity_bytes = capacity_bytes
        self.nbytes = 0
        self._block_tokens = block_tokens
        self._root = _Node((), _NoTokens(), None)
        self._clock = 0
        self._lock = threading.Lock()

    def match(self, token_ids: Tokens) -> list[Reuse]:
        """The longest cached beginning of `token_ids`, block by block."""
        with self._lock:
            self._clock += 1
            path = list(self._walk(token_ids))
            for node, _ in path:
                node.last_used = self._clock
            return [Reuse(node.block, length) for node, length in path]

    def peek(self, token_ids: Tokens) -> int:
        """How many leading tokens of `token_ids` are cached."""
        with self._lock:
            return sum(length for _, length in self._walk(token_ids))

    def insert(self, token_ids: Tokens, copy: Callable[[int, int], KVBlock], *, pinned: bool = False) -> None:
        """Keep the KV of `token_ids`; `copy(start, stop)` is called only for blocks that are not here yet."""
        with self._lock:
            self._insert(token_ids, copy, pinned)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._root.children.clear()
            self.nbytes = 0

    def __len__(self) -> int:
        return sum(1 for _ in self._nodes())

    def _walk(self, token_ids: Tokens) -> Iterator[tuple[_Node, int]]:
        node, position = self._root, 0
        while position < len(token_ids):
            child, length = node.nearest(token_ids[position : position + self._block_tokens])
            if child is None or length == 0:
                return
            yield child, length
            if length < self._block_tokens:
                return
            node, position = child, position + length

    def _insert(self, token_ids: Tokens, copy: Callable[[int, int], KVBlock], pinned: bool) -> None:
        node = self._root
        self._clock += 1
        for start in range(0, len(token_ids), self._block_tokens):
            tokens = token_ids[start : start + self._block_tokens]
            child, shared = node.nearest(tokens)
            if child is None or shared < len(tokens):
                child = self._add(node, tokens, copy(start, start + len(tokens)))
            child.last_used = self._clock
            child.pinned |= pinned
            self._evict()
            if child.parent is None:  # the bound is too small for this path: it went straight away
                return
            node = child

    def _add(self, parent: _Node, tokens: Tokens, block: KVBlock) -> _Node:
        pinned = False
        for partial in list(parent.children.values()):
            if tokens[: len(partial.tokens)] == partial.tokens:  # an unfinished block that this one continues
                pinned |= partial.pinned
                self._remove(partial)
        node = _Node(tokens, block, parent, pinned=pinned)
        parent.children[tokens] = node
        self.nbytes += block.nbytes
        return node

    def _evict(self) -> None:
        while self.nbytes > self.capacity_bytes:
            leaves = (node for node in self._nodes() if not node.children)
            self._remove(min(leaves, key=lambda node: (node.pinned, node.last_used)))

    def _remove(self, node: _Node) -> None:
        if node.parent is not None:
            del node.parent.children[node.tokens]
            node.parent = None
            self.nbytes -= node.block.nbytes

    def _nodes(self) -> Iterator[_Node]:
        waiting = [self._root]
        while waiting:
            children = waiting.pop().children.values()
            waiting.extend(children)
            yield from children


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length
