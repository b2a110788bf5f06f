"""The full-text index: what is in it, kept in the transaction of whoever changes a text.

`search_index` is an FTS5 table that holds terms alone (`storage.grams`), and `search_entries` says whose they
are. What is deleted from the one leaves the other by a trigger, however it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, event, func, insert, select, text
from sqlalchemy.orm import Session
from sqlalchemy.schema import DDL

from storage.folding import fold
from storage.grams import grams
from storage.table import Table
from storage.tables import Conversation, Message, SearchEntry

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


@dataclass(frozen=True, slots=True)
class NewText:
    """A text that is not in the index yet: a message's, or the title of a conversation."""

    moment: datetime
    text: str
    message_id: str | None = None
    conversation_id: str | None = None


def index_new(session: Session, texts: Sequence[NewText]) -> None:
    """Put many texts into the index at once. Their rows are there already; none of them has an entry."""
    with_terms = [
        (each, terms) for each in texts if (terms := grams(fold(each.text))) or each.conversation_id
    ]
    if not with_terms:
        return
    session.flush()
    numbers = _free_numbers(session, [number_of(each.moment) for each, _ in with_terms])
    entries = [
        {"number": number, "message_id": each.message_id, "conversation_id": each.conversation_id}
        for number, (each, _) in zip(numbers, with_terms, strict=True)
    ]
    session.execute(insert(SearchEntry), entries)
    keep_grams(session, [(number, terms) for number, (_, terms) in zip(numbers, with_terms, strict=True)])


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


def _free_numbers(session: Session, wanted: Sequence[int]) -> list[int]:
    """For each the next number that nothing has."""
    end = max(wanted) + len(wanted)
    while True:
        span = SearchEntry.number.between(min(wanted), end)
        taken = set(session.scalars(select(SearchEntry.number).where(span)))
        numbers, next_of = [], dict[int, int]()
        for moment in wanted:
            number = next_of.get(moment, moment)
            while number in taken:
                number += 1
            taken.add(number)
            next_of[moment] = number + 1
            numbers.append(number)
        if max(numbers) <= end:
            return numbers
        end = max(numbers) + len(wanted)  # it has come to where nothing is known yet
