"""Full-text search over messages and titles.

The index gives candidates, the newest first; the text of each is read, so that no wrong one is shown. Every
method is one transaction and blocks: call it from a pool thread. Any may raise `StorageError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import TextClause, func, select, text
from sqlalchemy.orm import Session

from storage.columns import UtcDateTime
from storage.database import Database
from storage.folding import fold, terms_of
from storage.grams import match_of
from storage.records import OWNER, Role
from storage.search_index import number_of
from storage.tables import Message

MAX_READ = 4_000
"""So many candidates are read for one page of results at most; what is older comes with the next one."""

_CANDIDATES = """
SELECT search_entries.number AS number, messages.id AS message_id, messages.role AS role,
    coalesce(messages.text, conversations.title) AS text,
    coalesce(messages.created_at, conversations.created_at) AS created_at,
    conversations.id AS conversation_id, conversations.title AS title, conversations.archived AS archived
FROM search_index
CROSS JOIN search_entries ON search_entries.number = search_index.rowid
LEFT JOIN messages ON messages.id = search_entries.message_id
CROSS JOIN conversations
    ON conversations.id = coalesce(search_entries.conversation_id, messages.conversation_id)
WHERE search_index MATCH :match AND search_index.rowid >= :since AND search_index.rowid < :before
    AND conversations.deleted_at IS NULL
    AND (conversations.person_id = :person OR conversations.shared IS NOT NULL)
    {more}
ORDER BY search_index.rowid DESC
"""
_OF_MODEL = """AND CASE
    WHEN messages.id IS NULL THEN EXISTS (
        SELECT 1 FROM messages AS replies
        WHERE replies.conversation_id = conversations.id AND replies.model = :model)
    WHEN messages.role = 'user' THEN EXISTS (
        SELECT 1 FROM messages AS replies WHERE replies.parent_id = messages.id AND replies.model = :model)
    ELSE messages.model = :model END"""

FIRST, LAST = -(2**62), 2**62


@dataclass(frozen=True, slots=True)
class Asked:
    """What is searched for: a query as it was typed, by whom, and what narrows it.

    A `person` finds their own conversations and those that are shared.
    `model` is by its name: replies that it wrote, and what they answer. `since` and `until` are moments; the
    latter is no longer part of it.
    """

    query: str
    model: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    person: str = OWNER


@dataclass(frozen=True, slots=True)
class Hit:
    """A text that contains what was searched for: a message's, or a title; that has no `message_id`."""

    number: int
    conversation_id: str
    title: str
    archived: bool
    created_at: datetime
    text: str
    message_id: str | None
    role: Role | None


@dataclass(frozen=True, slots=True)
class Found:
    """A page of results, the newest first. `terms` are what each contains, folded. `before` is where the next
    page begins; None when there is none.
    """

    terms: tuple[str, ...]
    hits: tuple[Hit, ...]
    before: int | None


class Search:
    """Search in one database."""

    def __init__(self, database: Database, most_read: int = MAX_READ) -> None:
        self._database = database
        self._most_read = most_read

    def find(self, asked: Asked, limit: int, before: int | None = None) -> Found:
        """At most `limit` results; with `before` of an earlier page, those after it.

        Raises `TooShort` for a query of single letters. A query of nothing finds nothing.
        """
        terms = terms_of(asked.query)
        if not terms:
            return Found((), (), None)
        hits: list[Hit] = []
        read = 0
        with self._database.read() as session:
            for hit in self._candidates(session, asked, match_of(terms), before):
                if len(hits) == limit or read == self._most_read:
                    return Found(terms, tuple(hits), hit.number + 1)
                read += 1
                folded = fold(hit.text)
                if all(term in folded for term in terms):
                    hits.append(hit)
        return Found(terms, tuple(hits), None)

    def models(self) -> list[str]:
        """The names of all models that wrote a reply, in order."""
        names: list[str] = []
        with self._database.read() as session:
            # One step into the index for each name, instead of through every message.
            first = select(func.min(Message.model))
            name = session.scalar(first.where(Message.model.is_not(None)))
            while name is not None:
                names.append(name)
                name = session.scalar(first.where(Message.model > name))
        return names

    def _candidates(self, session: Session, asked: Asked, match: str, before: int | None) -> Iterator[Hit]:
        since = number_of(asked.since) if asked.since else FIRST
        ends = [end for end in (before, number_of(asked.until) if asked.until else None) if end is not None]
        values: dict[str, Any] = {"match": match, "since": since, "before": min(ends, default=LAST)}
        values["person"] = asked.person
        if asked.model:
            values["model"] = asked.model
        for row in session.execute(_statement(asked.model is not None), values):
            yield Hit(
                number=row.number,
                conversation_id=row.conversation_id,
                title=row.title,
                archived=bool(row.archived),
                created_at=row.created_at,
                text=row.text,
                message_id=row.message_id,
                role=cast(Role, row.role) if row.role else None,
            )


def _statement(with_model: bool) -> TextClause:
    statement = text(_CANDIDATES.format(more=_OF_MODEL if with_model else ""))
    return statement.columns(created_at=UtcDateTime)  # type: ignore[return-value]
