"""Whether a person may see a conversation, write in it, or do with it what they like.

One place for every id that comes from outside. An id of another person's conversation is answered exactly as
one that was never given out. Every method blocks: call it from a pool thread. Any may raise `StorageError`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, cast

from sqlalchemy.orm import Session

from storage.database import Database
from storage.errors import NotAllowed, NotFound
from storage.lookup import find_live
from storage.people_tables import Person
from storage.records import ConversationRecord, MessageRecord
from storage.tables import Conversation, Message


class Right(IntEnum):
    """What a person may do with a conversation; each includes those before it."""

    READ = 1
    WRITE = 2
    OWN = 3

    @property
    def word(self) -> Literal["read", "write", "own"]:
        """Its name on a page."""
        return cast('Literal["read", "write", "own"]', self.name.lower())


def right_of(person: str, conversation: ConversationRecord) -> Right | None:
    """None where the conversation is hidden from the person."""
    if conversation.person_id == person:
        return Right.OWN
    return Right[conversation.shared.upper()] if conversation.shared else None


class Access:
    """Who may do what, in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def conversation(
        self, person: str, conversation_id: str, right: Right, *, even_deleted: bool = False
    ) -> ConversationRecord:
        """A conversation with which the person may do that. Raises `NotFound` where it is hidden from them,
        and `NotAllowed` where they may only do less.
        """
        with self._database.read() as session:
            return _conversation(session, person, conversation_id, right, even_deleted)

    def message(self, person: str, message_id: str, right: Right) -> MessageRecord:
        """As `conversation`, of a message by its id alone."""
        with self._database.read() as session:
            message = session.get(Message, message_id)
            try:
                _conversation(session, person, message.conversation_id if message else "", right, False)
            except NotFound:
                raise NotFound(f"There is no message {message_id}.") from None
            return find_live(session, message_id).record()


def _conversation(
    session: Session, person: str, conversation_id: str, right: Right, even_deleted: bool
) -> ConversationRecord:
    found = session.get(Conversation, conversation_id)
    if found is not None and (found.deleted_at is None or even_deleted):
        record = found.record()
        has = right_of(person, record)
        if has is not None:
            if has < right:
                raise NotAllowed(_reserved(session, record, right))
            return record
    raise NotFound(f"There is no conversation {conversation_id}.")


def _reserved(session: Session, conversation: ConversationRecord, right: Right) -> str:
    person = session.get(Person, conversation.person_id)
    name = person.name if person is not None else ""
    if right is Right.OWN:
        if name:
            return f"This conversation is {name}’s: only they can do that."
        return "This conversation is the owner’s: only they can do that."
    if name:
        return f"{name} shares this conversation to be read, not to be written in."
    return "The owner shares this conversation to be read, not to be written in."
