"""What the prefix cache is made of: blocks of KV, named after the tokens that lead to them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from inference.backends.base import KVBlock
from inference.ownership import NOBODY, may_reuse, person_of

Tokens: TypeAlias = tuple[int, ...]
BLOCK_TOKENS = 32


@dataclass(frozen=True, slots=True)
class _NoTokens:
    """What a root holds."""

    length: int = 0
    nbytes: int = 0


@dataclass(slots=True, eq=False)
class Node:
    """A block and its place in the tree.

    name: stands for all tokens up to the block's end. owners: the conversations that read all of its tokens
    (`inference.ownership`). pinned: part of a system prompt that is kept. stored: on disk too.
    """

    tokens: Tokens
    block: KVBlock
    parent: Node | None
    name: str
    owners: set[str] = field(default_factory=set)
    pinned: bool = False
    stored: bool = False
    last_used: int = 0
    children: dict[Tokens, Node] = field(default_factory=dict)

    @classmethod
    def root(cls, name: str = "") -> Node:
        """A node without tokens, to hang others on."""
        return cls((), _NoTokens(), None, name)

    def child(self, tokens: Tokens, block: KVBlock, *, stored: bool = False) -> Node:
        """A new node that is to follow this one."""
        return Node(tokens, block, self, block_name(self.name, tokens), stored=stored)

    @property
    def nbytes(self) -> int:
        """What the block counts for, in bytes. One that is kept once for several people counts for each of
        them, so that the sum does not tell one of them what another has.
        """
        people = {person_of(owner) for owner in self.owners}
        return self.block.nbytes * (1 if NOBODY in self.owners else max(1, len(people)))

    def is_seen_by(self, reader: str | None) -> bool:
        """Whether the block is there for that reader."""
        return NOBODY in self.owners or may_reuse(reader, self.owners)

    def nearest(self, tokens: Tokens, sees: Callable[[Node], bool]) -> tuple[Node | None, int]:
        """Of the children that are seen, the one that shares the longest beginning with `tokens`, and how
        long that is.
        """
        exact = self.children.get(tokens)
        if exact is not None and sees(exact):
            return exact, len(tokens)
        shared = ((child, common_prefix(child.tokens, tokens)) for child in self.children.values())
        seen = ((child, length) for child, length in shared if length and sees(child))
        return max(seen, key=lambda pair: pair[1], default=(None, 0))

    def serving(self, tokens: Tokens, owner: str, *, pinned: bool) -> Node | None:
        """The child with these tokens, or a longer one, that `owner` has already; else anybody's with exactly
        these: it is as good as a copy.
        """
        own = [
            child
            for child in self.children.values()
            if owner in child.owners and child.pinned >= pinned and child.tokens[: len(tokens)] == tokens
        ]
        # By their tokens, not by who came first: that might tell of others.
        return min(
            own, key=lambda child: (len(child.tokens), child.tokens), default=self.children.get(tokens)
        )

    def continued_by(self, tokens: Tokens, owner: str) -> list[Node]:
        """Unfinished children that `owner` does not need once there is one with `tokens`."""
        return [
            child
            for child in self.children.values()
            if owner in child.owners
            and not child.pinned
            and len(child.tokens) < len(tokens)
            and tokens[: len(child.tokens)] == child.tokens
        ]


def block_name(parent: str, tokens: Tokens) -> str:
    """SHA-256 over the parent's name and the tokens as little-endian uint32, in hex."""
    return hashlib.sha256(parent.encode() + struct.pack(f"<{len(tokens)}I", *tokens)).hexdigest()


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length
