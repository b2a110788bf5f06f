"""The conversation list: its pages, and what moves a conversation within it or out of it.

Every method is one transaction and blocks: call it from a pool thread. Any may raise `StorageError`, and then
nothing was changed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from typing import TypeAlias

from sqlalchemy import Select, delete, literal, select, tuple_

from storage.conversations import utc_now
from storage.database import Database
from storage.errors import NotFound
from storage.lookup import find_conversation
from storage.records import OWNER, ConversationRecord, Shared
from storage.tables import NOT_DELETED, SHARED, Conversation

Place: TypeAlias = tuple[datetime, str]
"""Where a conversation stands in the list: when its last turn began, and its id."""

MAX_PINNED = 100


class Listing:
    """The list over one database."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    def page(
        self,
        limit: int,
        *,
        person: str = OWNER,
        archived: bool = False,
        before: Place | None = None,
        until: Place | None = None,
    ) -> list[ConversationRecord]:
        """At most `limit` conversations that are not pinned, newest turn first; of the archived, all.

        They are the person's own and what others share; archived are only one's own. They come after the
        place `before`, and no later than `until`.
        """
        own = select(Conversation).where(
            NOT_DELETED, Conversation.person_id == person, Conversation.archived == archived
        )
        if archived:
            return self._read(_between(own, before, until), limit)
        own = own.where(Conversation.pinned.is_(False))
        others = select(Conversation).where(SHARED, Conversation.person_id != person)
        # Apart, each is read from an index in its order; joined by OR they would be sorted first.
        pages = [self._read(_between(rows, before, until), limit) for rows in (own, others)]
        return list(islice(heapq.merge(*pages, key=_place, reverse=True), limit))

    def pinned(self, person: str = OWNER) -> list[ConversationRecord]:
        """The person's own that come before all others, newest turn first."""
        rows = select(Conversation).where(
            NOT_DELETED,
            Conversation.person_id == person,
            Conversation.archived.is_(False),
            Conversation.pinned,
        )
        return self._read(rows, MAX_PINNED)

    def share(self, conversation_id: str, shared: Shared | None) -> ConversationRecord:
        """Lets the whole house read it, or write in it too; or nobody else. Raises `NotFound`."""
        with self._database.write() as session:
            conversation = find_conversation(session, conversation_id)
            conversation.shared = shared
            return conversation.record()

    def pin(self, conversation_id: str, pinned: bool) -> ConversationRecord:
        """Puts it before all others, or back where it was. Raises `NotFound`."""
        with self._database.write() as session:
            conversation = find_conversation(session, conversation_id)
            conversation.pinned = pinned
            return conversation.record()

    def archive(self, conversation_id: str, archived: bool) -> ConversationRecord:
        """Puts it out of the list, or back; it stays as it is otherwise. Raises `NotFound`."""
        with self._database.write() as session:
            conversation = find_conversation(session, conversation_id)
            conversation.archived = archived
            return conversation.record()

    def delete(self, conversation_id: str) -> None:
        """Deletes it with everything in it, until `restore` or `purge`: meanwhile nothing finds it.

        Again, it changes nothing. Raises `NotFound`.
        """
        with self._database.write() as session:
            conversation = _find_even_deleted(session.get(Conversation, conversation_id), conversation_id)
            conversation.deleted_at = conversation.deleted_at or self._clock()

    def restore(self, conversation_id: str) -> ConversationRecord:
        """Brings back what `delete` deleted, where it was. After `purge` it is `NotFound`."""
        with self._database.write() as session:
            conversation = _find_even_deleted(session.get(Conversation, conversation_id), conversation_id)
            conversation.deleted_at = None
            return conversation.record()

    def overdue(self, before: datetime) -> set[str]:
        """Those that were deleted before that moment, and are not purged yet."""
        with self._database.read() as session:
            return set(session.scalars(select(Conversation.id).where(Conversation.deleted_at < before)))

    def purge(self, before: datetime) -> None:
        """Deletes for good what was deleted before that moment."""
        with self._database.write() as session:
            session.execute(
                delete(Conversation).where(Conversation.deleted_at < before),
                execution_options={"synchronize_session": False},
            )

    def _read(self, rows: Select[Conversation], limit: int) -> list[ConversationRecord]:
        rows = rows.order_by(Conversation.updated_at.desc(), Conversation.id.desc()).limit(limit)
        with self._database.read() as session:
            return [row.record() for row in session.scalars(rows)]


def _between(rows: Select[Conversation], before: Place | None, until: Place | None) -> Select[Conversation]:
    at = tuple_(Conversation.updated_at, Conversation.id)
    if before is not None:
        rows = rows.where(at < _bound(before))
    if until is not None:
        rows = rows.where(at >= _bound(until))
    return rows


def _place(record: ConversationRecord) -> Place:
    return record.updated_at, record.id


def _bound(place: Place) -> object:
    return tuple_(literal(place[0], Conversation.updated_at.type), place[1])


def _find_even_deleted(found: Conversation | None, conversation_id: str) -> Conversation:
    if found is None:
        raise NotFound(f"There is no conversation {conversation_id}.")
    return found
