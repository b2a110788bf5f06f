"""The rows about what was said, as typed tables. Conversations are trees of messages, by `parent_id`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from storage.records import (
    OWNER,
    Choices,
    ConversationRecord,
    MessageRecord,
    Role,
    ScoresRecord,
    Shared,
    Status,
)
from storage.table import ID_LENGTH, Table

TITLE_LENGTH = 200

UNFINISHED = text("status IN ('pending', 'running')")
"""Written out, not bound: SQLite uses the partial index only for the identical term."""

DELETED = text("deleted_at IS NOT NULL")
NOT_DELETED = text("deleted_at IS NULL")
HAS_USAGE = text("usage IS NOT NULL")
USAGE_TERMS = tuple(
    f"json_extract(usage, '$.{name}')" for name in ("prompt_tokens", "cached_tokens", "completion_tokens")
)
"""Written out as well: sums of the identical terms are read from the index, without the rows."""

SHARED = text("shared IS NOT NULL AND deleted_at IS NULL")

NO = text("0")


class Conversation(Table):
    """A row of `conversations`. It is `person_id`'s; `shared` says what others may do with it.

    `head_id` and `cut_id` name messages without a foreign key: the two tables would refer to each other, and
    SQLite cannot add a constraint later. With `deleted_at` it is deleted with everything in it, and can still
    be brought back.
    """

    __tablename__ = "conversations"
    __table_args__ = (
        Index("conversations_by_update", "updated_at", "id"),
        Index(
            "conversations_listed",
            "person_id",
            "archived",
            "pinned",
            "updated_at",
            "id",
            sqlite_where=NOT_DELETED,
        ),
        Index("conversations_shared", "updated_at", "id", sqlite_where=SHARED),
        Index("conversations_deleted", "deleted_at", sqlite_where=DELETED),
    )

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    title: Mapped[str] = mapped_column(String(TITLE_LENGTH))
    system_prompt: Mapped[str]
    head_id: Mapped[str | None] = mapped_column(String(ID_LENGTH))
    cut_id: Mapped[str | None] = mapped_column(String(ID_LENGTH))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    params: Mapped[dict[str, Any] | None]
    thinking: Mapped[bool | None]
    pinned: Mapped[bool] = mapped_column(default=False, server_default=NO)
    archived: Mapped[bool] = mapped_column(default=False, server_default=NO)
    deleted_at: Mapped[datetime | None]
    origin: Mapped[str | None]
    person_id: Mapped[str] = mapped_column(String(ID_LENGTH), default=OWNER, server_default=OWNER)
    shared: Mapped[str | None]

    def record(self) -> ConversationRecord:
        """A frozen copy."""
        return ConversationRecord(
            id=self.id,
            title=self.title,
            system_prompt=self.system_prompt,
            head_id=self.head_id,
            cut_id=self.cut_id,
            created_at=self.created_at,
            updated_at=self.updated_at,
            choices=Choices(self.params or {}, self.thinking),
            pinned=self.pinned,
            archived=self.archived,
            origin=self.origin,
            person_id=self.person_id,
            shared=cast("Shared | None", self.shared),
        )


class Message(Table):
    """A row of `messages`. A parent belongs to the same conversation.

    `parent_id` does not cascade: a long branch would exceed SQLite's depth of triggers. With `deleted_at` a
    message and all that follows it are deleted, and can still be brought back; the messages that follow
    carry no mark of it. `person_id` is who wrote it, where that is known.
    """

    __tablename__ = "messages"
    __table_args__ = (
        CheckConstraint("role IN ('user', 'assistant')", name="messages_role"),
        CheckConstraint("status IN ('pending', 'running', 'done', 'interrupted')", name="messages_status"),
        Index("messages_of_conversation", "conversation_id"),
        Index("messages_children", "parent_id"),
        Index("messages_client_id", "client_id", unique=True, sqlite_where=text("client_id IS NOT NULL")),
        Index("messages_unfinished", "status", sqlite_where=UNFINISHED),
        Index(
            "messages_usage",
            "finished_at",
            *map(text, USAGE_TERMS),
            sqlite_where=HAS_USAGE,
        ),
        Index("messages_deleted", "deleted_at", sqlite_where=DELETED),
        Index("messages_by_model", "model", sqlite_where=text("model IS NOT NULL")),
    )

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("messages.id"))
    client_id: Mapped[str | None]
    role: Mapped[str]
    status: Mapped[str]
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    model: Mapped[str | None]
    finish_reason: Mapped[str | None]
    error: Mapped[str | None]
    params: Mapped[dict[str, Any] | None]
    usage: Mapped[dict[str, Any] | None]
    timings: Mapped[dict[str, Any] | None]
    context: Mapped[dict[str, Any] | None]
    text: Mapped[str]
    token_ids: Mapped[tuple[int, ...] | None]
    reasoning: Mapped[str | None]
    pinned: Mapped[bool] = mapped_column(default=False, server_default=NO)
    deleted_at: Mapped[datetime | None]
    person_id: Mapped[str | None] = mapped_column(String(ID_LENGTH))

    def record(self) -> MessageRecord:
        """A frozen copy."""
        return MessageRecord(
            id=self.id,
            conversation_id=self.conversation_id,
            parent_id=self.parent_id,
            client_id=self.client_id,
            role=cast(Role, self.role),
            text=self.text,
            status=Status(self.status),
            created_at=self.created_at,
            finished_at=self.finished_at,
            token_ids=self.token_ids,
            model=self.model,
            params=self.params,
            usage=self.usage,
            timings=self.timings,
            context=self.context,
            finish_reason=self.finish_reason,
            error=self.error,
            reasoning=self.reasoning,
            pinned=self.pinned,
            person_id=self.person_id,
        )


class SearchEntry(Table):
    """A row of `search_entries`: a text in the full-text index, a message's or a title.

    `number` is its rowid there, from the milliseconds since 1970 of when the text was written: the index
    gives the newest first, and dates are ranges.
    """

    __tablename__ = "search_entries"
    __table_args__ = (
        CheckConstraint("(message_id IS NULL) <> (conversation_id IS NULL)", name="search_entries_one"),
        Index("search_entries_messages", "message_id", unique=True),
        Index("search_entries_titles", "conversation_id", unique=True),
    )

    number: Mapped[int] = mapped_column(primary_key=True)
    message_id: Mapped[str | None] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"))
    conversation_id: Mapped[str | None] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))


class TokenScores(Table):
    """A row of `token_scores`: how likely a model found the tokens that a reply had then."""

    __tablename__ = "token_scores"

    message_id: Mapped[str] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True)
    model: Mapped[str]
    computed_by: Mapped[dict[str, Any] | None]
    tokens: Mapped[int]
    scores: Mapped[bytes]
    created_at: Mapped[datetime]

    def record(self) -> ScoresRecord:
        """A frozen copy."""
        return ScoresRecord(self.model, self.computed_by or {}, self.tokens, self.scores, self.created_at)


class Continuation(Table):
    """A row of `continuations`: the command `client_id` let a reply go on."""

    __tablename__ = "continuations"
    __table_args__ = (Index("continuations_of_message", "message_id"),)

    client_id: Mapped[str] = mapped_column(primary_key=True)
    message_id: Mapped[str] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"))
