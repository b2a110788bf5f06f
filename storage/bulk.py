"""Whole conversations stored many at a time, which is a hundred times faster than turn by turn.

Blocks: call it from a pool thread. May raise `StorageError`; a transaction that it ended stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from storage.database import Database
from storage.folding import fold
from storage.grams import grams
from storage.records import ConversationRecord, MessageRecord, Status
from storage.search_index import keep_grams, number_of
from storage.tables import Conversation, Message, SearchEntry

AT_ONCE = 200
"""Conversations of one transaction."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A conversation with all its messages, each after the one that it follows."""

    conversation: ConversationRecord
    messages: Sequence[MessageRecord]


def keep_all(database: Database, wholes: Iterable[Whole]) -> None:
    """Stores them all, and puts them into the index."""
    waiting = iter(wholes)
    while batch := list(islice(waiting, AT_ONCE)):
        with database.write() as session:
            session.execute(insert(Conversation), [_conversation_row(each.conversation) for each in batch])
            messages = [message for each in batch for message in each.messages]
            if messages:
                session.execute(insert(Message), [asdict(message) for message in messages])
            _index(session, batch)


def _conversation_row(record: ConversationRecord) -> dict[str, Any]:
    row: dict[str, Any] = asdict(record)
    choices: dict[str, Any] = row.pop("choices")
    return row | choices


def _index(session: Session, batch: Sequence[Whole]) -> None:
    texts: list[tuple[datetime, str, dict[str, str | None]]] = []
    for each in batch:
        chat = each.conversation
        texts.append((chat.created_at, chat.title, {"conversation_id": chat.id, "message_id": None}))
        for message in each.messages:
            if message.text and message.status in (Status.DONE, Status.INTERRUPTED):
                whose = {"conversation_id": None, "message_id": message.id}
                texts.append((message.created_at, message.text, whose))
    numbers = _free_numbers(session, [number_of(moment) for moment, _, _ in texts])
    entries = [{"number": number, **whose} for number, (_, _, whose) in zip(numbers, texts, strict=True)]
    session.execute(insert(SearchEntry), entries)
    folded = (fold(text) for _, text, _ in texts)
    keep_grams(session, [(number, grams(text)) for number, text in zip(numbers, folded, strict=True)])


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
