"""Stored messages and running replies as pages show them. Rendering blocks: call it from a pool thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from storage.records import ConversationRecord, MessageRecord, Siblings, Status
from web.generation import RunningView
from web.markdown import render_plain
from web.rendered import Rendered
from web.views import EarlierView, MessageView, QuietLine, ReasoningView, SystemView, TranscriptView

NEWEST = 60
"""So many messages at the end of a conversation come with its page, and as many at a time before them."""
AROUND = 20
"""So many messages before and after one that is jumped to."""

_rendered = Rendered()


def message_view(
    record: MessageRecord,
    running: RunningView | None = None,
    siblings: Siblings | None = None,
    author: str | None = None,
) -> MessageView:
    """A message as the page shows it; `running` where it is still being written, `siblings` where it has
    some.
    """
    if record.role == "user":
        body = Markup(render_plain(record.text))
        return MessageView(
            record.id, "user", record.status, body, siblings=siblings, pinned=record.pinned, author=author
        )
    if running is not None and running.reply_id == record.id:
        thought = ReasoningView(running.reasoning, running.reasoning_s, not running.thought)
        return MessageView(
            record.id,
            "assistant",
            "running",
            Markup(running.body),
            Markup(running.tail),
            running.seq,
            progress=running.progress,
            reasoning=thought if running.reasoning else None,
            siblings=siblings,
        )
    return MessageView(
        record.id,
        "assistant",
        record.status,
        Markup(_rendered.html(record.text)),
        seq=end_seq(record),
        finish_reason=record.finish_reason,
        error=record.error,
        line=_quiet_line(record),
        reasoning=_reasoning(record),
        siblings=siblings,
        can_continue=_can_continue(record),
        pinned=record.pinned,
    )


def author_of(
    record: MessageRecord, conversation: ConversationRecord, names: Mapping[str, str]
) -> str | None:
    """What the person is called who wrote a message in a conversation that others see, or in another's; empty
    for an owner without a name. None where nobody else writes or reads.
    """
    author = record.person_id or conversation.person_id
    if record.role != "user" or (conversation.shared is None and author == conversation.person_id):
        return None
    return names.get(author, "")


def end_seq(record: MessageRecord) -> int:
    """Tells the end of a reply from one that it had before it went on; 0 where it has not ended."""
    return int(1000 * record.finished_at.timestamp()) if record.finished_at else 0


def transcript_view(
    conversation: ConversationRecord,
    messages: Sequence[MessageRecord],
    running: RunningView | None,
    system: SystemView | None,
    siblings: Mapping[str, Siblings],
    at: str | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> TranscriptView:
    """The newest messages of a branch: a long one comes to the page piece by piece. With the message `at`,
    also those around it. `names` are people's, by their ids.
    """
    start = max(0, len(messages) - NEWEST)
    place = next((i for i, message in enumerate(messages) if message.id == at), start)
    near = messages[max(0, place - AROUND) : place + AROUND] if place < start else ()
    first = max(0, place - AROUND) if near else start
    gap = bool(near) and first + len(near) < start
    shown = [*near, *messages[start:]] if gap else messages[first:]
    views = [
        message_view(message, running, siblings.get(message.id), author_of(message, conversation, names))
        for message in shown
    ]
    return TranscriptView(
        views,
        conversation.cut_id,
        system,
        bool(views) and views[-1].role == "user",
        _earlier(messages[first]) if first else None,
        _earlier(messages[start], after=near[-1].id) if gap else None,
        conversation.origin,
    )


def _earlier(first: MessageRecord, after: str = "") -> EarlierView:
    url = f"/c/{first.conversation_id}/earlier?before={first.id}"
    return EarlierView(url + (f"&after={after}" if after else ""), first.parent_id or "", first.id)


def _quiet_line(record: MessageRecord) -> QuietLine | None:
    usage, timings = record.usage, record.timings
    if usage is None or timings is None:
        return None
    begun = (record.context or {}).get("begun", 0)
    return QuietLine(
        completion_tokens=usage["completion_tokens"] + begun,
        reasoning_tokens=usage.get("reasoning_tokens", 0),
        begun=begun,
        prompt_tokens=usage["prompt_tokens"],
        cached_tokens=usage["cached_tokens"],
        ttft_s=timings["ttft_s"],
        decode_tok_s=timings["decode_tok_s"],
        stop_s=timings["stop_s"],
        reuse_lost=_reuse_lost(record.context),
        model=record.model or "",
    )


def _can_continue(record: MessageRecord) -> bool:
    """Whether the reply was cut short and has a beginning."""
    ended = record.status in (Status.DONE, Status.INTERRUPTED)
    return ended and record.finish_reason != "stop" and bool(record.token_ids)


def _reasoning(record: MessageRecord) -> ReasoningView | None:
    if not record.reasoning:
        return None
    seconds = record.timings.get("reasoning_s") if record.timings else None
    return ReasoningView(record.reasoning, seconds)


def _reuse_lost(context: Mapping[str, Any] | None) -> str | None:
    return context.get("reuse_lost") if context else None
