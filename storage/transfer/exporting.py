"""Conversations as they stand in the database, for files. Every method blocks: call it from a pool thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

from sqlalchemy import RowMapping, Select, func, select
from sqlalchemy.orm import Session

from storage.database import Database
from storage.lookup import find_conversation
from storage.records import Role, Status
from storage.tables import NOT_DELETED, Conversation, Message
from storage.transfer.schema import ExportedConversation, ExportedMessage

PLAIN = ("finished_at", "model", "finish_reason", "error", "reasoning", "pinned")
RECORDS = ("params", "usage", "timings", "context", "token_ids")
COLUMNS = ("id", "parent_id", "role", "text", "status", "created_at", "deleted_at", *PLAIN, *RECORDS)

T = TypeVar("T")


class Exports:
    """What can be exported of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def conversation(self, conversation_id: str) -> ExportedConversation:
        """One conversation. Raises `NotFound`."""
        with self._database.read() as session:
            return exported(session, conversation_id)

    def count(self, person: str | None = None) -> int:
        """How many conversations there are, or are a person's own."""
        counted = _those_of(person, select(func.count()).select_from(Conversation))
        with self._database.read() as session:
            return session.scalar(counted) or 0

    def everything(self, person: str | None = None) -> Iterator[ExportedConversation]:
        """All conversations, or a person's own, oldest first, as they are together at the first step: what is
        changed later is not seen. It holds a connection until it is closed or exhausted.
        """
        with self._database.snapshot() as session:
            found = _those_of(person, select(Conversation.id))
            oldest_first = found.order_by(Conversation.created_at, Conversation.id)
            for conversation_id in session.scalars(oldest_first).all():
                yield exported(session, conversation_id)
                session.expunge_all()


def _those_of(person: str | None, rows: Select[T]) -> Select[T]:
    there = rows.where(NOT_DELETED)
    return there if person is None else there.where(Conversation.person_id == person)


def exported(session: Session, conversation_id: str) -> ExportedConversation:
    """One conversation within a session that the caller holds. Raises `NotFound`."""
    conversation = find_conversation(session, conversation_id)
    columns = [getattr(Message, name) for name in COLUMNS]
    rows = select(*columns).where(Message.conversation_id == conversation_id)
    ordered = rows.order_by(Message.created_at, Message.id)
    messages = tuple(map(_message, _in_order(session.execute(ordered).mappings().all())))
    return ExportedConversation(
        id=conversation.id,
        title=conversation.title,
        origin=conversation.origin,
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        pinned=conversation.pinned,
        archived=conversation.archived,
        system_prompt=conversation.system_prompt,
        params=conversation.params or None,
        thinking=conversation.thinking,
        head_id=conversation.head_id,
        cut_id=conversation.cut_id,
        messages=messages,
    )


def _in_order(rows: Sequence[RowMapping]) -> Iterator[Mapping[str, Any]]:
    """Every message after its parent, branch by branch and oldest first; deleted branches are left out."""
    children: dict[str | None, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["deleted_at"] is None:
            children.setdefault(row["parent_id"], []).append(cast("Mapping[str, Any]", row))
    waiting = list(reversed(children.get(None, ())))
    while waiting:
        row = waiting.pop()
        yield row
        waiting.extend(reversed(children.get(row["id"], ())))


def _message(row: Mapping[str, Any]) -> ExportedMessage:
    status: Literal["done", "interrupted"] = "done" if row["status"] == Status.DONE else "interrupted"
    return ExportedMessage(
        id=row["id"],
        parent_id=row["parent_id"],
        role=cast(Role, row["role"]),
        text=row["text"],
        status=status,
        created_at=row["created_at"],
        **{name: row[name] for name in (*PLAIN, *RECORDS)},
    )
