"""Whole conversations stored many at a time, which is a hundred times faster than turn by turn.

Blocks: call it from a pool thread. May raise `StorageError`; a transaction that it ended stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from sqlalchemy import insert

from storage.database import Database
from storage.records import ConversationRecord, MessageRecord, Status
from storage.search_index import NewText, index_new
from storage.tables import Conversation, Message

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
            index_new(session, [text for each in batch for text in _texts(each)])


def _conversation_row(record: ConversationRecord) -> dict[str, Any]:
    row: dict[str, Any] = asdict(record)
    choices: dict[str, Any] = row.pop("choices")
    return row | choices


def _texts(whole: Whole) -> Iterator[NewText]:
    chat = whole.conversation
    yield NewText(chat.created_at, chat.title, conversation_id=chat.id)
    for message in whole.messages:
        if message.status in (Status.DONE, Status.INTERRUPTED):
            yield NewText(message.created_at, message.text, message_id=message.id)
