"""The server's frames on `/ws`: JSON text, one object each, its `type` naming the struct. Clients' are in
`web.commands`.

An answer that belongs to one command repeats its id as `ref`. Events of a running reply carry `message_id`
and that reply's rising `seq`.

HTML in a frame was made and sanitized by the server; the client inserts it and makes none of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

ErrorCode: TypeAlias = Literal[
    "bad_frame",
    "bad_params",
    "busy",
    "conflict",
    "internal",
    "model_failed",
    "model_loading",
    "not_allowed",
    "not_found",
    "storage",
    "too_long",
]


class ContextView(Struct, frozen=True, kw_only=True):
    """The context bar, in exact tokens. `left_out` counts messages that the model would not read.

    `warm` is how many of the prompt's tokens are expected to be cached. `excess` is above zero when the text
    cannot be sent: so many tokens must go.
    """

    window: int
    system: int
    pinned: int
    history: int
    draft: int
    reserve: int
    warm: int
    left_out: int
    excess: int = 0


class Accepted(Struct, frozen=True, tag="accepted", tag_field="type"):
    """A pending reply is stored, and the message it answers. Goes to every watcher; `ref` is the sender's
    command id.

    `user_html` and `reply_html` are the two messages as the page shows them; they take the place of whatever
    follows `parent_id` (null: of all messages). A message that was there before has no `user_html`, and is
    itself the `parent_id`. `cut_id` is the first message that the model reads, where the line belongs; null
    when it reads everything.
    """

    ref: str
    conversation_id: str
    parent_id: str | None
    user_id: str
    reply_id: str
    user_html: str | None
    reply_html: str
    cut_id: str | None


class Queued(Struct, frozen=True, tag="queued", tag_field="type"):
    """The reply waits; `position` 1 is next. `eta_s` is null before anything was measured and while the
    model is `loading`.
    """

    message_id: str
    seq: int
    position: int
    eta_s: float | None
    loading: bool


class Prefill(Struct, frozen=True, tag="prefill", tag_field="type"):
    """The model reads the prompt: `done` of `total` tokens, `cached` of them reused."""

    message_id: str
    seq: int
    done: int
    total: int
    cached: int


class Delta(Struct, frozen=True, tag="delta", tag_field="type", omit_defaults=True):
    """What changed in a running reply's body.

    In this order: `blocks` (finished HTML blocks) go in before the tail; `tail`, when present, replaces the
    whole tail; `code`, when present, is text to append to the open code block that the tail ends with.

    `reasoning` is text, not HTML, to append to what the model thinks before it answers. Once that is over,
    `thought_s` tells how long it took; null where nobody measured it.
    """

    message_id: str
    seq: int
    blocks: tuple[str, ...] = ()
    tail: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    thought_s: float | None | UnsetType = UNSET


class Finished(Struct, frozen=True, tag="finished", tag_field="type"):
    """The reply is stored. `html` is the whole message as the page shows it."""

    message_id: str
    seq: int
    finish_reason: str
    html: str
    context: ContextView | None


class Snapshot(Struct, frozen=True, tag="snapshot", tag_field="type"):
    """The whole transcript; it replaces what the page shows. A running reply in it has its seq in
    `data-seq`.
    """

    ref: str
    conversation_id: str
    html: str
    context: ContextView | None


class Switched(Struct, frozen=True, tag="switched", tag_field="type"):
    """Another branch is looked at. Goes to every watcher; `ref` is the sender's command id.

    `html` are the messages that take the place of whatever follows `kept_id` (null: of all messages). A
    running reply in it has its seq in `data-seq`.
    """

    ref: str
    conversation_id: str
    kept_id: str | None
    html: str
    cut_id: str | None
    context: ContextView | None


class Counted(Struct, frozen=True, tag="counted", tag_field="type"):
    """The answer to `count`."""

    ref: str
    context: ContextView


class StatusFrame(Struct, frozen=True, tag="status", tag_field="type"):
    """What the model is doing: `phase` as in `inference.types.ModelPhase`, with bytes while downloading.

    `can_send` tells whether a message would be accepted (the tokenizer is there); `message` says why not.
    `size` is how large the model is, `detail` what runs and how much fits. `unsaved` is HTML that says why
    nothing can be saved now; empty while everything can.
    """

    phase: str
    message: str
    done: int
    total: int
    model: str
    size: str
    detail: str
    can_send: bool
    unsaved: str = ""


class Conversations(Struct, frozen=True, tag="conversations", tag_field="type"):
    """The conversation list changed, perhaps on another device. `html` is the first piece of it."""

    html: str


class ConversationDeleted(Struct, frozen=True, tag="conversation_deleted", tag_field="type"):
    """A conversation was deleted, or brought back where not `deleted`. Goes to every watcher of it; with a
    `ref` it answers a `watch`.
    """

    conversation_id: str
    deleted: bool
    ref: str | None = None


class ChatRight(Struct, frozen=True, tag="right", tag_field="type"):
    """What this person may do with a conversation changed; with `none` it is hidden from now on. `html` says
    so. Goes to every watcher, each their own.
    """

    conversation_id: str
    right: Literal["none", "read", "write", "own"]
    html: str


class ChatSettings(Struct, frozen=True, tag="settings", tag_field="type"):
    """What was chosen for a conversation changed, perhaps on another device. Goes to every watcher.

    `system_html` is its system text as the page shows it; empty where there is none.
    """

    conversation_id: str
    system_html: str
    context: ContextView | None


class Pinned(Struct, frozen=True, tag="pinned", tag_field="type"):
    """A message was pinned or unpinned. Goes to every watcher of its conversation."""

    message_id: str
    pinned: bool
    context: ContextView | None


class PresetList(Struct, frozen=True, tag="presets", tag_field="type"):
    """The presets changed. `html` is the whole choice that the page of a new chat shows."""

    html: str


class DeviceConnected(Struct, frozen=True, tag="device_connected", tag_field="type"):
    """A device was let in. Goes to the owner's sockets."""

    name: str


class Error(Struct, frozen=True, tag="error", tag_field="type"):
    """A command failed; nothing of it was done. `needed` and `limit` come with `too_long`, in tokens;
    `waiting` and `limit` with `busy` when the queue is full, in places.
    """

    code: ErrorCode
    message: str
    ref: str | None = None
    needed: int | None = None
    limit: int | None = None
    waiting: int | None = None


ServerFrame: TypeAlias = (
    Accepted
    | Queued
    | Prefill
    | Delta
    | Finished
    | Snapshot
    | Switched
    | Counted
    | StatusFrame
    | Conversations
    | ConversationDeleted
    | ChatRight
    | ChatSettings
    | Pinned
    | PresetList
    | DeviceConnected
    | Error
)

InEachLanguage: TypeAlias = Mapping[str, ServerFrame]
"""A frame that holds words, by the code of the language that they are in."""

_encoder = msgspec.json.Encoder()


def encode(frame: ServerFrame) -> str:
    """A server frame as JSON text."""
    return _encoder.encode(frame).decode()
