"""Versions of a reply beside each other: how far two are the same, and whether one repeats another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.conversations import Conversations
from storage.errors import NotFound
from storage.records import MessageRecord


@dataclass(frozen=True, slots=True)
class Repetition:
    """A reply that was to be the same as another, of which `total` tokens are there: the first `same` are."""

    of: str
    same: int
    total: int


def repetition_of(conversations: Conversations, reply: MessageRecord) -> Repetition | None:
    """How far a reply repeats the one that it was to repeat; None where it was to repeat none, or that is
    gone. Blocks.
    """
    original_id = (reply.context or {}).get("repeats")
    if original_id is None:
        return None
    try:
        original = conversations.message(original_id, reply.conversation_id)
    except NotFound:
        return None
    ids = original.token_ids or ()
    return Repetition(original_id, common_tokens(ids, reply.token_ids or ()), len(ids))


def common_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
