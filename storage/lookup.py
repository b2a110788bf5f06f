"""Finding rows within a session that the caller holds."""

from __future__ import annotations

from sqlalchemy import literal, select
from sqlalchemy.orm import Session

from storage.errors import NotFound
from storage.tables import Conversation, Message


def find_conversation(session: Session, conversation_id: str) -> Conversation:
    """Raises `NotFound`."""
    found = session.get(Conversation, conversation_id)
    if found is None:
        raise NotFound(f"There is no conversation {conversation_id}.")
    return found


def find_message(session: Session, message_id: str, conversation_id: str | None = None) -> Message:
    """A message, of that conversation where one is named. Raises `NotFound`."""
    found = session.get(Message, message_id)
    if found is None or conversation_id not in (None, found.conversation_id):
        place = f" in conversation {conversation_id}" if conversation_id else ""
        raise NotFound(f"There is no message {message_id}{place}.")
    return found


def find_branch(session: Session, leaf_id: str) -> list[Message]:
    """The messages from the root to the leaf, reading no other rows."""
    steps = select(Message.id, Message.parent_id, literal(0).label("depth")).where(Message.id == leaf_id)
    walk = steps.cte("branch", recursive=True)
    walk = walk.union_all(
        select(Message.id, Message.parent_id, walk.c.depth + 1).join(walk, Message.id == walk.c.parent_id)
    )
    branch = select(Message).join(walk, Message.id == walk.c.id).order_by(walk.c.depth.desc())
    return list(session.scalars(branch))
