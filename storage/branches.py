"""The branches of a conversation: which one is looked at, and deleting one so that it can be brought back.

Every method is one transaction, blocks, and may raise `StorageError`, after which nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from storage.conversations import utc_now
from storage.database import Database
from storage.errors import NotFound
from storage.lookup import find_branch, find_conversation, find_live, find_message, following, newest_leaf
from storage.records import MessageRecord, MovedHead, Siblings, Status
from storage.search_index import index_message, take_out
from storage.tables import Conversation, Message

CutOf: TypeAlias = Callable[[Sequence[MessageRecord]], str | None]
"""The first message that the model reads of a branch, None where it reads from the beginning."""


class Branches:
    """The branches in one database."""

    def __init__(self, database: Database, cut_of: CutOf, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._cut_of = cut_of
        self._clock = clock

    def siblings(self, conversation_id: str) -> dict[str, Siblings]:
        """The places of those messages that have siblings, oldest first. What is deleted has no place, and
        nobody looks at what follows it.
        """
        rows = select(Message.id, Message.parent_id).where(
            Message.conversation_id == conversation_id, Message.deleted_at.is_(None)
        )
        families: dict[str | None, list[str]] = {}
        with self._database.read() as session:
            for message_id, parent_id in session.execute(rows.order_by(Message.created_at, Message.id)):
                families.setdefault(parent_id, []).append(message_id)
        return {
            message_id: Siblings(
                position,
                len(family),
                family[position - 2] if position > 1 else None,
                family[position] if position < len(family) else None,
            )
            for family in families.values()
            if len(family) > 1
            for position, message_id in enumerate(family, start=1)
        }

    def newest_after(self, message_id: str) -> list[MessageRecord]:
        """The branch with a message in it, from the first one to where it was last worked on. Raises
        `NotFound`.
        """
        with self._database.read() as session:
            message = find_live(session, message_id)
            return [row.record() for row in find_branch(session, newest_leaf(session, message.id))]

    def leaves(self, conversation_id: str) -> list[str]:
        """The last message of every branch that is not deleted."""
        rows = select(Message.id, Message.parent_id, Message.deleted_at).where(
            Message.conversation_id == conversation_id
        )
        children: dict[str | None, list[str]] = {}
        with self._database.read() as session:
            for message_id, parent_id, deleted_at in session.execute(rows):
                if deleted_at is None:
                    children.setdefault(parent_id, []).append(message_id)
        leaves, open_ends = [], list(children.get(None, ()))
        while open_ends:
            message_id = open_ends.pop()
            following = children.get(message_id)
            open_ends.extend(following or ())
            if not following:
                leaves.append(message_id)
        return leaves

    def leaf_with(self, conversation_id: str, message_id: str) -> str | None:
        """The end of a branch with that message: the head, where that has it, else where it was last worked
        on. None when there is no such message.
        """
        with self._database.read() as session:
            conversation = find_conversation(session, conversation_id)
            try:
                find_live(session, message_id, conversation_id)
            except NotFound:
                return None
            head = conversation.head_id
            if head and message_id in [message.id for message in find_branch(session, head)]:
                return head
            return newest_leaf(session, message_id)

    def switch(self, conversation_id: str, message_id: str) -> MovedHead:
        """Moves the head to the newest message at or after that one. Raises `NotFound`."""
        with self._database.write() as session:
            conversation = find_conversation(session, conversation_id)
            message = find_live(session, message_id, conversation_id)
            self._move(session, conversation, newest_leaf(session, message.id))
            return MovedHead(conversation.record(), message.parent_id)

    def delete(self, conversation_id: str, message_id: str) -> MovedHead:
        """Deletes a message with everything after it, until `restore` or `purge`.

        If the head was there, it moves to the nearest sibling, or to the parent where there is none; without
        either the conversation is empty. Again, it changes nothing. Raises `NotFound`.
        """
        with self._database.write() as session:
            conversation = find_conversation(session, conversation_id)
            message = find_message(session, message_id, conversation_id)
            if message.deleted_at is None:
                find_live(session, message_id)
                looked_at = conversation.head_id and find_branch(session, conversation.head_id)
                gone = [each.id for each in following(session, message_id)]
                message.deleted_at = self._clock()
                take_out(session, gone)
                session.flush()
                if looked_at and message in looked_at:
                    self._move(session, conversation, _nearest(session, message))
            return MovedHead(conversation.record(), message.parent_id)

    def restore(self, conversation_id: str, message_id: str) -> MovedHead:
        """Brings back what `delete` deleted, and moves the head there. After `purge` it is `NotFound`."""
        with self._database.write() as session:
            conversation = find_conversation(session, conversation_id)
            message = find_message(session, message_id, conversation_id)
            message.deleted_at = None
            session.flush()
            find_live(session, message_id)
            for each in following(session, message_id):
                if each.status in (Status.DONE, Status.INTERRUPTED):
                    index_message(session, each)
            self._move(session, conversation, newest_leaf(session, message.id))
            return MovedHead(conversation.record(), message.parent_id)

    def overdue(self, before: datetime) -> set[str]:
        """The conversations with branches that were deleted before that moment, and are not purged yet."""
        rows = select(Message.conversation_id).where(Message.deleted_at < before).distinct()
        with self._database.read() as session:
            return set(session.scalars(rows))

    def purge(self, before: datetime) -> None:
        """Deletes for good what was deleted before that moment."""
        gone = select(Message.id).where(Message.deleted_at < before).cte("gone", recursive=True)
        gone = gone.union(select(Message.id).join(gone, Message.parent_id == gone.c.id))
        with self._database.write() as session:
            # In one statement: the rows refer to each other, which is looked at when it ends.
            session.execute(
                delete(Message).where(Message.id.in_(select(gone.c.id))),
                execution_options={"synchronize_session": False},
            )

    def _move(self, session: Session, conversation: Conversation, head_id: str | None) -> None:
        branch = find_branch(session, head_id) if head_id else []
        conversation.head_id = head_id
        conversation.cut_id = self._cut_of([message.record() for message in branch])


def _nearest(session: Session, deleted: Message) -> str | None:
    """Where to look once a message is deleted: the sibling before it, else after it, else its parent."""
    family = select(Message).where(
        Message.conversation_id == deleted.conversation_id, Message.parent_id == deleted.parent_id
    )
    rows = list(session.scalars(family.order_by(Message.created_at, Message.id)))
    place = rows.index(deleted)
    nearest = [row for row in (*reversed(rows[:place]), *rows[place:]) if row.deleted_at is None]
    return newest_leaf(session, nearest[0].id) if nearest else deleted.parent_id
