"""Keys and values that were computed once, kept for whoever begins with the same tokens.

A tree of token blocks: every node holds a copy of the KV of up to `block_tokens` tokens, and the path from
the root to it spells the tokens that came before, so that one copy serves every conversation with that
beginning. Nodes are copies, never views of a running sequence's cache: evicting one is always safe.

`match` reads (and renews what it used), `insert` adds, and eviction keeps the bytes within the bound after
each block: the least recently used leaf goes first, pinned ones (system prompts) last. A block belongs to
the conversations that read all of its tokens, so `forget` leaves nothing that only one of them read. It is
there only for readers who may reuse what one of these computed (`inference.ownership`); for others it is as
if it were not: they compute its tokens again, and are owners of the same copy from then on.

The worker thread matches, inserts and pins; `peek` and `forget` may come from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from inference.backends.base import KVBlock
from inference.ownership import NOBODY, alone, conversation_of, may_reuse
from inference.token_blocks import BLOCK_TOKENS, Node, Tokens, block_name

REMEMBERED_EVICTIONS = 8_192


class Reuse(NamedTuple):
    """The first `length` tokens of a cached block are the next ones of a prompt."""

    block: KVBlock
    length: int


class PrefixCache:
    """Blocks of KV by the tokens that lead to them, bounded in bytes. `evicted_blocks` made room for others
    since the beginning.
    """

    def __init__(self, capacity_bytes: int, block_tokens: int = BLOCK_TOKENS) -> None:
        self.capacity_bytes = capacity_bytes
        self.nbytes = 0
        self.evicted_blocks = 0
        self._block_tokens = block_tokens
        self._root = Node.root()
        self._nodes: dict[str, Node] = {}  # by name; each comes after its parent
        self._clock = 0
        self._evicted: dict[str, set[str]] = {}  # by name: whose it was
        self._dropped: list[str] = []
        self._lock = threading.Lock()

    def match(self, token_ids: Tokens, reader: str | None = None) -> list[Reuse]:
        """The longest beginning of `token_ids` that is cached for a reader, block by block."""
        with self._lock:
            self._clock += 1
            path = list(self._walk(token_ids, reader))
            for node, _ in path:
                node.last_used = self._clock
            return [Reuse(node.block, length) for node, length in path]

    def peek(self, token_ids: Tokens, reader: str | None = None) -> int:
        """How many leading tokens of `token_ids` are cached for a reader."""
        with self._lock:
            return sum(length for _, length in self._walk(token_ids, reader))

    def insert(
        self,
        token_ids: Tokens,
        copy: Callable[[int, int], KVBlock],
        *,
        owner: str = NOBODY,
        pinned: bool = False,
    ) -> None:
        """Keep the KV of `token_ids` for `owner`; `copy(start, stop)` is called only for blocks that are not
        here yet.
        """
        with self._lock:
            self._insert(token_ids, copy, owner, pinned)

    def forget(self, conversation: str, keep: Iterable[Tokens] = ()) -> None:
        """Remove every block that only this conversation used; except those that `keep` has all tokens of.
        Without any, what it had cached once is forgotten too.
        """
        keep = list(keep)
        with self._lock:
            owners = {owner for node in self._nodes.values() for owner in node.owners}
            for owner in owners - {NOBODY}:
                if conversation_of(owner) == conversation:
                    self._forget(owner, keep)
            if not keep:
                self._forget_evictions(conversation)

    def pinned_tokens(self, token_ids: Tokens) -> int:
        """How many leading tokens of `token_ids` are cached and pinned."""
        with self._lock:
            return sum(len(tokens) for node, tokens in self._exactly(token_ids) if node.pinned)

    def repin(self, prefixes: Iterable[Tokens]) -> None:
        """Pin exactly what these consist of, as far as it is here for everybody. What was nobody's but
        pinned, or nobody's at all, goes.
        """
        with self._lock:
            kept = {id(node) for prefix in prefixes for node, _ in self._exactly(prefix)}
            for node in list(self._nodes.values()):
                node.pinned = id(node) in kept
                if not node.pinned and NOBODY in node.owners:
                    self._own(node, node.owners - {NOBODY})
            self._evict()  # what was everybody's counts for each of its people now

    def release(self, down_to: int = 0) -> int:
        """Evict what is not pinned until so many bytes are left at most; the bytes that this freed."""
        with self._lock:
            before = self.nbytes
            while self.nbytes > down_to and self._evict_leaf(pinned=False):
                pass
            return before - self.nbytes

    def was_evicted(self, token_ids: Tokens, reader: str | None = None) -> bool:
        """Whether more of `token_ids` had been cached for a reader, and made room for others."""
        with self._lock:
            path = list(self._walk(token_ids, reader))
            whole = [node for node, length in path if length == self._block_tokens]
            parent = whole[-1] if whole else self._root
            start = len(whole) * self._block_tokens
            following = token_ids[start : start + self._block_tokens]
            known = path[-1][1] if len(path) > len(whole) else 0
            ends = range(known + 1, len(following) + 1)
            names = (block_name(parent.name, following[:end]) for end in ends)
            return any(may_reuse(reader, self._evicted.get(name, ())) for name in names)

    def clear(self, root: str = "") -> None:
        """Forget everything; the names of blocks start from `root` from now on."""
        with self._lock:
            self._root = Node.root(root)
            self._nodes.clear()
            self._evicted.clear()
            self._dropped.clear()
            self.nbytes = 0

    def restore(self, parent: str, tokens: Tokens, block: KVBlock, owners: set[str]) -> None:
        """Put back a stored block after the one that is called `parent`, where that is here."""
        with self._lock:
            node = self._nodes.get(parent, self._root)
            if node.name != parent or tokens in node.children:
                return
            self._clock += 1
            child = node.child(tokens, block, stored=True)
            child.owners = owners if node is self._root else owners & node.owners
            child.last_used = self._clock
            if child.owners:
                self._attach(child)
                self._evict()

    def next_unstored(self) -> Node | None:
        """A block that is worth keeping on disk and is not there yet; each comes after its parent."""
        with self._lock:
            unstored = (node for node in self._nodes.values() if not node.stored)
            return next((node for node in unstored if node.pinned or node.owners - {NOBODY}), None)

    def owners(self) -> dict[str, frozenset[str]]:
        """Who owns each block, by its name."""
        with self._lock:
            return {name: frozenset(node.owners) for name, node in self._nodes.items()}

    def take_dropped(self) -> list[str]:
        """Names of the stored blocks that left the tree since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, []
            return dropped

    def __len__(self) -> int:
        return len(self._nodes)

    def _walk(self, token_ids: Tokens, reader: str | None) -> Iterator[tuple[Node, int]]:
        node, position = self._root, 0
        while position < len(token_ids):
            following = token_ids[position : position + self._block_tokens]
            child, length = node.nearest(following, lambda child: child.is_seen_by(reader))
            if child is None or length == 0:
                return
            yield child, length
            if length < self._block_tokens:
                return
            node, position = child, position + length

    def _exactly(self, token_ids: Tokens) -> Iterator[tuple[Node, Tokens]]:
        """The blocks that `insert` with `pinned` would find, each with the tokens that it stands for."""
        node = self._root
        for start in range(0, len(token_ids), self._block_tokens):
            tokens = token_ids[start : start + self._block_tokens]
            child = node.serving(tokens, NOBODY, pinned=True)
            if child is None or NOBODY not in child.owners:
                return
            yield child, tokens
            node = child

    def _insert(
        self, token_ids: Tokens, copy: Callable[[int, int], KVBlock], owner: str, pinned: bool
    ) -> None:
        node = self._root
        self._clock += 1
        for start in range(0, len(token_ids), self._block_tokens):
            tokens = token_ids[start : start + self._block_tokens]
            child = node.serving(tokens, owner, pinned=pinned)
            if child is None:
                child = node.child(tokens, copy(start, start + len(tokens)))
                self._attach(child)
            child.last_used = self._clock
            self._own(child, child.owners | {owner})
            child.pinned |= pinned
            for partial in node.continued_by(tokens, owner):
                self._own(partial, partial.owners - {owner})
            self._evict()
            if child.parent is None:  # the bound is too small for this path: it went straight away
                return
            node = child

    def _attach(self, node: Node) -> None:
        assert node.parent is not None
        node.parent.children[node.tokens] = node
        self._nodes[node.name] = node
        self.nbytes += node.nbytes

    def _own(self, node: Node, owners: set[str]) -> None:
        """Change whose a block is. One that is nobody's any more goes; so does then what follows it, since
        whoever owns a block owns those before it.
        """
        self.nbytes -= node.nbytes
        node.owners = owners
        self.nbytes += node.nbytes
        if not owners:
            self._remove(node)
        if node.name in self._evicted:  # it is back for these
            self._evicted[node.name] -= owners

    def _forget(self, owner: str, keep: Iterable[Tokens]) -> None:
        paths = [path for ids in keep for path in self._walk(ids, alone(owner))]
        kept = {node.name for node, length in paths if length == len(node.tokens)}
        for node in list(self._nodes.values()):
            if owner in node.owners and node.name not in kept:
                self._own(node, node.owners - {owner})

    def _forget_evictions(self, conversation: str) -> None:
        for name, whose in list(self._evicted.items()):
            whose -= {owner for owner in whose if owner and conversation_of(owner) == conversation}
            if not whose:
                del self._evicted[name]

    def _evict(self) -> None:
        while self.nbytes > self.capacity_bytes:
            self._evict_leaf(pinned=True)

    def _evict_leaf(self, *, pinned: bool) -> bool:
        """Remove the leaf that goes first, if it is not pinned or may be."""
        leaves = (node for node in self._nodes.values() if not node.children)
        leaf = min(leaves, key=lambda node: (node.pinned, node.last_used), default=None)
        if leaf is None or (leaf.pinned and not pinned):
            return False
        self._remove(leaf)
        self.evicted_blocks += 1
        self._evicted[leaf.name] = leaf.owners | self._evicted.pop(leaf.name, set())
        if len(self._evicted) > REMEMBERED_EVICTIONS:
            del self._evicted[next(iter(self._evicted))]
        return True

    def _remove(self, node: Node) -> None:
        if node.parent is not None:
            del node.parent.children[node.tokens]
            node.parent = None
            del self._nodes[node.name]
            self.nbytes -= node.nbytes
            if node.stored:
                self._dropped.append(node.name)
