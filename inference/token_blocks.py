"""What the prefix cache is made of: blocks of KV, named after the tokens that lead to them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from inference.backends.base import KVBlock

Tokens: TypeAlias = tuple[int, ...]
BLOCK_TOKENS = 32
NOBODY = ""
"""The owner of what belongs to no conversation."""


@dataclass(frozen=True, slots=True)
class _NoTokens:
    """What a root holds."""

    length: int = 0
    nbytes: int = 0


@dataclass(slots=True, eq=False)
class Node:
    """A block and its place in the tree.

    name: stands for all tokens up to the block's end. owners: the conversations that read all of its tokens.
    pinned: part of a system prompt that is kept. stored: on disk too.
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

    def nearest(self, tokens: Tokens) -> tuple[Node | None, int]:
        """The child that shares the longest beginning with `tokens`, and how long that is."""
        exact = self.children.get(tokens)
        if exact is not None:
            return exact, len(tokens)
        shared = ((child, common_prefix(child.tokens, tokens)) for child in self.children.values())
        return max(shared, key=lambda pair: pair[1], default=(None, 0))

    def serving(self, tokens: Tokens, owner: str, *, pinned: bool) -> Node | None:
        """The child with exactly these tokens, or a longer one that `owner` has already."""
        longer = (
            child
            for child in self.children.values()
            if owner in child.owners and child.pinned >= pinned and child.tokens[: len(tokens)] == tokens
        )
        return self.children.get(tokens) or next(longer, None)

    def continued_by(self, tokens: Tokens, owner: str) -> list[Node]:
        """Unfinished children that nobody but `owner` needs once there is one with `tokens`."""
        return [
            child
            for child in self.children.values()
            if tokens[: len(child.tokens)] == child.tokens and not child.pinned and child.owners <= {owner}
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
