"""The full-text index: what is in it, kept in the transaction of whoever changes a text.

`search_index` is an FTS5 table that holds terms alone (`storage.grams`), and `search_entries` says whose they
are. What is deleted from the one leaves the other by a trigger, however it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, event, func, insert, select, text
from sqlalchemy.orm import Session
from sqlalchemy.schema import DDL

from storage.folding import fold
from storage.grams import grams
from storage.tables import UNFINISHED, Conversation, Message, SearchEntry, Table

MAKE = (
    "CREATE VIRTUAL TABLE search_index USING fts5("
    "grams, content='', contentless_delete=1, detail=none, tokenize='ascii')",
    "CREATE TRIGGER search_entries_leave AFTER DELETE ON search_entries"
    " BEGIN DELETE FROM search_index WHERE rowid = old.number; END",
)

for _statement in MAKE:
    event.listen(Table.metadata, "after_create", DDL(_statement))  # type: ignore[no-untyped-call]

KEEP = "INSERT OR REPLACE INTO search_index(rowid, grams) VALUES (:number, :grams)"
_KEEP = text(KEEP)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPAN = 1_000
"""Numbers that belong to one moment: so many milliseconds later another one begins to look for its own."""


def number_of(moment: datetime) -> int:
    """The first number for a text of that moment."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def index_message(session: Session, message: Message) -> None:
    """Put a message's text into the index, in place of what it was. Its row is there already."""
    session.flush()
    of_message = SearchEntry.message_id == message.id
    number = session.scalar(select(SearchEntry.number).where(of_message))
    terms = grams(fold(message.text))
    if not terms:
        session.execute(delete(SearchEntry).where(of_message))
        return
    if number is None:
        number = _free(session, message.created_at)
        session.execute(insert(SearchEntry).values(number=number, message_id=message.id))
    keep_grams(session, [(number, terms)])


def index_title(session: Session, conversation: Conversation) -> None:
    """Put a conversation's title into the index, in place of what it was. Its row is there already."""
    session.flush()
    number = session.scalar(select(SearchEntry.number).where(SearchEntry.conversation_id == conversation.id))
    if number is None:
        number = _free(session, conversation.created_at)
        session.execute(insert(SearchEntry).values(number=number, conversation_id=conversation.id))
    keep_grams(session, [(number, grams(fold(conversation.title)))])


def index_conversation(session: Session, conversation_id: str) -> None:
    """Put the title and all messages of a conversation into the index that are not being written.

    For what was stored as a whole, such as an import.
    """
    session.flush()
    index_title(session, session.get_one(Conversation, conversation_id))
    ended = select(Message).where(Message.conversation_id == conversation_id, ~UNFINISHED)
    for message in session.scalars(ended.order_by(Message.created_at)):
        index_message(session, message)


def keep_grams(session: Session, texts: Sequence[tuple[int, str]]) -> None:
    """Give numbers their terms, in place of those that they had."""
    session.execute(_KEEP, [{"number": number, "grams": terms} for number, terms in texts])


def take_out(session: Session, message_ids: Iterable[str]) -> None:
    """Messages that may come back leave the index."""
    for message_id in message_ids:
        session.execute(delete(SearchEntry).where(SearchEntry.message_id == message_id))


def _free(session: Session, moment: datetime) -> int:
    """A number that no text has: a turn's two messages, and many imported ones, are of one moment."""
    start = number_of(moment)
    while True:
        taken = session.scalar(
            select(func.max(SearchEntry.number)).where(SearchEntry.number.between(start, start + _SPAN - 1))
        )
        if taken is None:
            return start
        if taken < start + _SPAN - 1:
            return int(taken) + 1
        start += _SPAN
