"""Making the full-text index anew from the texts, in one transaction. Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sqlalchemy import delete, select, text
from sqlalchemy.orm import Session

from storage.database import Database
from storage.records import Status
from storage.search_index import MAKE, NewText, index_new
from storage.tables import Conversation, Message, SearchEntry

AT_ONCE = 500
"""Texts in memory at a time: all of them may be larger than it is."""

BUFFER_BYTES, USUAL_BYTES = 8_000_000, 1_048_576
_SET_BUFFER = text("INSERT INTO search_index(search_index, rank) VALUES ('hashsize', :size)")
"""What FTS5 collects before it writes: with more it merges less often."""


def rebuild_index(database: Database) -> int:
    """Drops the index and puts in every text that belongs there. How many those are.

    Only without a server: whoever writes meanwhile waits for all of it.
    """
    with database.write() as session:
        for statement in ("DROP TRIGGER IF EXISTS search_entries_leave", "DROP TABLE IF EXISTS search_index"):
            session.execute(text(statement))
        session.execute(delete(SearchEntry))
        for statement in MAKE:
            session.execute(text(statement))
        session.execute(_SET_BUFFER, {"size": BUFFER_BYTES})
        texts = _texts(session)
        while chunk := list(islice(texts, AT_ONCE)):
            index_new(session, chunk)
        session.execute(_SET_BUFFER, {"size": USUAL_BYTES})
        return len(session.scalars(select(SearchEntry.number)).all())


def _texts(session: Session) -> Iterator[NewText]:
    """Titles, then messages as they were written, a question before its reply."""
    titles = select(Conversation.id, Conversation.created_at, Conversation.title)
    for chat_id, moment, title in session.execute(titles.order_by(Conversation.created_at)).all():
        yield NewText(moment, title, conversation_id=chat_id)
    gone = select(Message.id).where(Message.deleted_at.is_not(None)).cte("gone", recursive=True)
    gone = gone.union(select(Message.id).join(gone, Message.parent_id == gone.c.id))
    ended = Message.status.in_((Status.DONE, Status.INTERRUPTED))
    ids = select(Message.id).where(ended, Message.id.not_in(select(gone.c.id)))
    for message_id in session.scalars(ids.order_by(Message.created_at, Message.role.desc())).all():
        written = select(Message.created_at, Message.text).where(Message.id == message_id)
        moment, words = session.execute(written).one()
        yield NewText(moment, words, message_id=message_id)
