"""What an earlier turn computed of a prompt, who may reuse it, and why that is of no use any more, as the
records tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from inference.ownership import UNNAMED, alone, owner_of
from storage.records import OWNER, ConversationRecord, MessageRecord


def reader_for(person: str) -> str:
    """Who reads the cache for a chat of that person's that has not begun."""
    return UNNAMED if person == OWNER else person


def owner_for(conversation: ConversationRecord) -> str:
    """Whose it is what the conversation computes, whoever writes in it."""
    return owner_of(reader_for(conversation.person_id), conversation.id)


def reader_in(conversation: ConversationRecord) -> str:
    """Who reads the cache for what is asked in the conversation: its person. Once others see it, it alone:
    they would else learn from it, by what they write there, what its person keeps from them.
    """
    owner = owner_for(conversation)
    return alone(owner) if conversation.shared else reader_for(conversation.person_id)


def reusable_tokens(messages: Sequence[MessageRecord], lost: str | None) -> int:
    """Leading tokens of the next prompt that the last turn computed; 0 when the prompt begins otherwise."""
    earlier = _last_reply(messages)
    if earlier is None or earlier.usage is None or lost:
        return 0
    # The last token of a reply may have been sampled and never computed.
    return int(earlier.usage["prompt_tokens"] + earlier.usage["completion_tokens"] - 1)


def as_part(reply: MessageRecord) -> dict[str, Any]:
    """What a reply that goes on keeps of its way so far."""
    return {
        "tokens": len(reply.token_ids or ()),
        "finish_reason": reply.finish_reason,
        "usage": reply.usage,
        "timings": reply.timings,
    }


def why_lost(messages: Sequence[MessageRecord], model: str, context: Mapping[str, Any]) -> str | None:
    """Why the prompt begins otherwise than the last turn's; None where it goes on from there.

    context: what the new reply's record says of its prompt.
    """
    by_template: str | None = context["reuse_lost"]
    earlier = _last_reply(messages)
    if earlier is None or earlier.context is None:
        return by_template
    then = earlier.context
    if earlier.model != model:
        return "another model wrote the earlier replies"
    if _changed(then, context, "system_hash"):
        return "the system prompt was changed"
    if set(context["left_out"]) - set(then.get("left_out", ())):
        return "older messages were left out to make room"
    if set(then.get("left_out", ())) - set(context["left_out"]):
        return "messages that had been left out are read again"
    if by_template is None and _changed(then, context, "template_hash"):
        return "the template changed the text"
    return by_template


def system_hash(system_prompt: str) -> str:
    """The first 12 hex digits of the system prompt's SHA-256."""
    return hashlib.sha256(system_prompt.encode()).hexdigest()[:12]


def _last_reply(messages: Sequence[MessageRecord]) -> MessageRecord | None:
    """The last reply whose prompt and text were computed to the end that it has."""
    whole = (m for m in reversed(messages) if m.role == "assistant" and m.text and m.usage)
    return next((m for m in whole if m.finish_reason != "error"), None)


def _changed(then: Mapping[str, Any], now: Mapping[str, Any], name: str) -> bool:
    return name in then and then[name] != now[name]
