"""Taking conversations from files into the database, each in one transaction: whole, or not at all.

What is imported is the importing person's. Ids say what they have already. A conversation whose id is known
is compared with what is here, message by message: where they agree, only what is missing is added; where they
do not, or where it is another person's, the file's comes in as a copy under ids of its own, which the same
file would give that person again. Blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from storage.database import Database
from storage.records import OWNER
from storage.search_index import NewText, index_new
from storage.table import ID_LENGTH
from storage.tables import Conversation, Message
from storage.transfer.exporting import PLAIN, RECORDS, exported
from storage.transfer.schema import ExportedConversation, ExportedMessage

AT_ONCE = 500
"""Ids in one question to the database."""


class Outcome(StrEnum):
    """What became of a conversation in a file."""

    IMPORTED = "imported"
    UPDATED = "updated"
    ALREADY_HERE = "already here"
    REFUSED = "refused"


class Imports:
    """A person's way into one database."""

    def __init__(self, database: Database, person: str = OWNER) -> None:
        self._database = database
        self._person = person

    def add(self, conversation: ExportedConversation) -> tuple[Outcome, str]:
        """Keeps a conversation whose tree was checked; what became of it, and the id that it has here."""
        with self._database.write() as session:
            outcome = _add(session, conversation, self._person)
            if outcome is None:
                conversation = copied(conversation, self._person)
                outcome = _add(session, conversation, self._person)
            # Only who looks for it can make the ids of a copy mean something else.
            return outcome or Outcome.ALREADY_HERE, conversation.id


def copied(conversation: ExportedConversation, person: str = OWNER) -> ExportedConversation:
    """The same under other ids, which its content and whose it is decide."""
    whose = b"" if person == OWNER else person.encode()
    digest = sha256(msgspec.json.encode(conversation) + whose).hexdigest()
    names = {message.id: derived_id(digest, message.id) for message in conversation.messages}

    def renamed(old: str | None) -> str | None:
        return old and names[old]

    def message(old: ExportedMessage) -> ExportedMessage:
        return msgspec.structs.replace(
            old,
            id=names[old.id],
            parent_id=renamed(old.parent_id),
            context=old.context and {key: _renamed(value, names) for key, value in old.context.items()},
        )

    return msgspec.structs.replace(
        conversation,
        id=derived_id(digest, conversation.id),
        head_id=renamed(conversation.head_id),
        cut_id=renamed(conversation.cut_id),
        messages=tuple(map(message, conversation.messages)),
    )


def derived_id(*parts: str) -> str:
    """An id that the same parts always give."""
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:ID_LENGTH]


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """What a reply's record says, with the new names of the messages that it names."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    return value


def _add(session: Session, conversation: ExportedConversation, person: str) -> Outcome | None:
    """None where its ids mean something else here; nothing was changed then."""
    known = session.get(Conversation, conversation.id)
    elsewhere = _places(session, conversation.messages)
    if any(place != conversation.id for place in elsewhere.values()):
        return None
    if known is None:
        session.execute(insert(Conversation), [_conversation_row(conversation) | {"person_id": person}])
        title = NewText(conversation.created_at, conversation.title, conversation_id=conversation.id)
        index_new(session, [title])
        _insert(session, conversation.id, conversation.messages)
        return Outcome.IMPORTED
    if known.person_id != person:
        return None
    known.deleted_at = None  # who imports it again wants it back
    here = {message.id: message for message in exported(session, known.id).messages}
    common = [message for message in conversation.messages if message.id in elsewhere]
    if not all(message.id in here and _agree(message, here[message.id]) for message in common):
        return None
    return _bring_up_to_date(session, known, conversation, here)


def _bring_up_to_date(
    session: Session,
    known: Conversation,
    conversation: ExportedConversation,
    here: Mapping[str, ExportedMessage],
) -> Outcome:
    missing = [message for message in conversation.messages if message.id not in here]
    if not missing:
        return Outcome.ALREADY_HERE
    _insert(session, known.id, missing)
    parents = {message.id: message.parent_id for message in conversation.messages}
    above = conversation.head_id
    while above is not None and above != known.head_id:
        above = parents[above]
    if above == known.head_id:  # the branch that is looked at went on
        known.head_id, known.cut_id = conversation.head_id, conversation.cut_id
    known.updated_at = max(known.updated_at, conversation.updated_at)
    return Outcome.UPDATED


def _agree(theirs: ExportedMessage, ours: ExportedMessage) -> bool:
    """Whether a message here says what the file says, or has gone on from there."""
    same_place = (theirs.role, theirs.parent_id) == (ours.role, ours.parent_id)
    return same_place and (theirs.text == ours.text or (theirs.role != "user" and _went_on(theirs, ours)))


def _went_on(theirs: ExportedMessage, ours: ExportedMessage) -> bool:
    return ours.text.startswith(theirs.text)


def _places(session: Session, messages: Sequence[ExportedMessage]) -> dict[str, str]:
    """The conversations in which messages with these ids are."""
    places: dict[str, str] = {}
    for first in range(0, len(messages), AT_ONCE):
        ids = [message.id for message in messages[first : first + AT_ONCE]]
        rows = session.execute(select(Message.id, Message.conversation_id).where(Message.id.in_(ids)))
        places |= {message_id: place for message_id, place in rows}
    return places


def _conversation_row(conversation: ExportedConversation) -> dict[str, Any]:
    times, flags = ("created_at", "updated_at"), ("pinned", "archived")
    names = ("id", "title", "origin", *times, *flags, "system_prompt", "head_id", "cut_id")
    row = {name: getattr(conversation, name) for name in names}
    return {**row, "params": conversation.params or {}, "thinking": conversation.thinking}


def _insert(session: Session, conversation_id: str, messages: Sequence[ExportedMessage]) -> None:
    names = ("id", "parent_id", "role", "text", "status", "created_at", *PLAIN, *RECORDS)
    rows = [{name: getattr(message, name) for name in names} for message in messages]
    if rows:
        session.execute(insert(Message), [row | {"conversation_id": conversation_id} for row in rows])
        ended = (message for message in messages if message.status in ("done", "interrupted"))
        index_new(session, [NewText(each.created_at, each.text, message_id=each.id) for each in ended])
