"""The values that `storage` takes and gives: frozen copies of rows, safe to pass between threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

Json: TypeAlias = Mapping[str, Any]
Role: TypeAlias = Literal["user", "assistant"]
DeviceKind: TypeAlias = Literal["owner", "guest"]
Shared: TypeAlias = Literal["read", "write"]

OWNER = "owner"
"""The id of the person whose server it is; the only one on a server that is not shared."""

NEW_MESSAGE = "new"
"""Stands for the id of a message that is about to be stored."""


class Status(StrEnum):
    """Where a reply stands. User messages are `done` from the start."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen for a conversation in place of the model's defaults; nothing else is kept.

    `params` are sampling params by their names. `thinking` is whether the model is to reason first; None
    leaves that to the server.
    """

    params: Json = field(default_factory=dict)
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """One conversation. `head_id` is the newest message of the branch last looked at; None while empty.

    `cut_id` is the first message that the model reads; None while it reads from the beginning.
    `system_prompt` and `choices` may be changed between its turns. `updated_at` is when its last turn began.
    `pinned` and `archived` say where it is listed; `origin` names the program that it was imported from.
    It is `person_id`'s, and `shared` with the house to read, to write in, or not at all. Times are UTC.
    """

    id: str
    title: str
    system_prompt: str
    head_id: str | None
    cut_id: str | None
    created_at: datetime
    updated_at: datetime
    choices: Choices = Choices()
    pinned: bool = False
    archived: bool = False
    origin: str | None = None
    person_id: str = OWNER
    shared: Shared | None = None


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message of a conversation's tree. Optional fields belong to replies.

    `token_ids` are the exact ids that were generated; `reasoning` is what they say before the text. `params`
    is what `web` gave when the turn began, `usage`, `timings` and `context` when the reply ended; `error` is
    a sentence. `client_id` is the browser's id of the command that made the message; None for a reply that
    came with its question. `person_id` is who wrote it or asked for it, where that is known.
    """

    id: str
    conversation_id: str
    parent_id: str | None
    client_id: str | None
    role: Role
    text: str
    status: Status
    created_at: datetime
    finished_at: datetime | None = None
    token_ids: tuple[int, ...] | None = None
    model: str | None = None
    params: Json | None = None
    usage: Json | None = None
    timings: Json | None = None
    context: Json | None = None
    finish_reason: str | None = None
    error: str | None = None
    reasoning: str | None = None
    pinned: bool = False
    person_id: str | None = None


@dataclass(frozen=True, slots=True)
class AskedTurn:
    """What a client asked for, under an id that it made: enough to know the turn again.

    `conversation_id` None begins a conversation. `parent_id` is the message it answers; None for the first.
    """

    client_id: str
    conversation_id: str | None
    parent_id: str | None
    text: str


@dataclass(frozen=True, slots=True)
class NewTurn(AskedTurn):
    """A user's message and the reply that is to follow it, committed together.

    `title`, `system_prompt` and `choices` are for a conversation that it begins, `person_id`'s own. `cut_id`
    becomes the conversation's cut; `NEW_MESSAGE` makes that this turn's own message.
    """

    title: str
    system_prompt: str
    cut_id: str | None
    model: str
    params: Json
    choices: Choices = Choices()
    person_id: str = OWNER


@dataclass(frozen=True, slots=True)
class AskedReply:
    """Another reply to a question that is stored, under an id that the client made."""

    client_id: str
    conversation_id: str
    question_id: str


@dataclass(frozen=True, slots=True)
class NewReply(AskedReply):
    """A further reply beside those that the question has; `cut_id` becomes the conversation's cut."""

    cut_id: str | None
    model: str
    params: Json
    person_id: str = OWNER


@dataclass(frozen=True, slots=True)
class AskedContinuation:
    """A reply that broke off is to go on, under an id that the client made."""

    client_id: str
    conversation_id: str
    reply_id: str


@dataclass(frozen=True, slots=True)
class NewContinuation(AskedContinuation):
    """What the reply keeps while it goes on: `context` takes the place of the one that it had."""

    cut_id: str | None
    context: Json


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A question and its reply as committed. `repeated` when the same client id had already been taken."""

    conversation: ConversationRecord
    user: MessageRecord
    reply: MessageRecord
    repeated: bool


@dataclass(frozen=True, slots=True)
class Siblings:
    """Where a message stands among the messages with the same parent: `position` of `count`, from 1."""

    position: int
    count: int
    previous_id: str | None
    next_id: str | None


@dataclass(frozen=True, slots=True)
class MovedHead:
    """A conversation whose head may have moved. Up to `kept_id` its branch is what it was; None: from its
    first message on it may be another.
    """

    conversation: ConversationRecord
    kept_id: str | None


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """How a reply ended, with everything that is kept of it."""

    text: str
    token_ids: tuple[int, ...]
    status: Status
    finish_reason: str | None
    usage: Json | None = None
    timings: Json | None = None
    context: Json | None = None
    error: str | None = None
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class NewScores:
    """How likely `model` found each of the first `tokens` tokens of a reply, as bytes whose meaning is
    `inference`'s. `computed_by` is what it ran on.
    """

    model: str
    computed_by: Json
    tokens: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ScoresRecord(NewScores):
    """Such scores as they are kept. Times are UTC."""

    created_at: datetime


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Tokens of several replies together: read, reused of these, and written."""

    replies: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class PersonRecord:
    """Somebody who is let in, on however many devices. `name` is empty for an owner who gave none; `password`
    is derived from what they chose, None where they chose none. Times are UTC.
    """

    id: str
    name: str
    created_at: datetime
    password: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """One browser that was let in, and whose it is. `name` was guessed from what it says of itself. Times are
    UTC.
    """

    id: str
    name: str
    kind: DeviceKind
    created_at: datetime
    last_seen_at: datetime
    revoked_at: datetime | None = None
    person_id: str = OWNER


@dataclass(frozen=True, slots=True)
class PresetRecord:
    """A system prompt with a name. Everybody in the house may choose a `shared` one."""

    id: str
    name: str
    text: str
    shared: bool
    person: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DefaultsRecord:
    """What a person's new chats begin with. `preset_id` None is the server's own system prompt."""

    choices: Choices = Choices()
    preset_id: str | None = None
