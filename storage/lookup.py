"""Finding rows within a session that the caller holds."""

from __future__ import annotations

from sqlalchemy import func, literal, select
from sqlalchemy.orm import Session

from storage.errors import NotFound
from storage.tables import Conversation, Message


def find_conversation(session: Session, conversation_id: str) -> Conversation:
    """Raises `NotFound`, for a deleted one too."""
    found = session.get(Conversation, conversation_id)
    if found is None or found.deleted_at is not None:
        raise NotFound(f"There is no conversation {conversation_id}.")
    return found


def find_message(session: Session, message_id: str, conversation_id: str | None = None) -> Message:
    """A message, of that conversation where one is named. Raises `NotFound`."""
    found = session.get(Message, message_id)
    if found is None or conversation_id not in (None, found.conversation_id):
        place = f" in conversation {conversation_id}" if conversation_id else ""
        raise NotFound(f"There is no message {message_id}{place}.")
    find_conversation(session, found.conversation_id)
    return found


def find_live(session: Session, message_id: str, conversation_id: str | None = None) -> Message:
    """As `find_message`, but not in a branch that was deleted."""
    found = find_message(session, message_id, conversation_id)
    find_branch(session, found.id)
    return found


def is_live(session: Session, message_id: str) -> bool:
    """Whether the message is there, and its branch was not deleted."""
    walk = select(Message.id, Message.parent_id, Message.deleted_at).where(Message.id == message_id)
    branch = walk.cte("before", recursive=True)
    before = select(Message.id, Message.parent_id, Message.deleted_at)
    branch = branch.union_all(before.join(branch, Message.id == branch.c.parent_id))
    length, deleted = session.execute(select(func.count(), func.count(branch.c.deleted_at))).one()
    return bool(length) and not deleted


def find_branch(session: Session, leaf_id: str) -> list[Message]:
    """The messages from the root to the leaf, reading no other rows. Raises `NotFound` if one is deleted."""
    steps = select(Message.id, Message.parent_id, literal(0).label("depth")).where(Message.id == leaf_id)
    walk = steps.cte("branch", recursive=True)
    walk = walk.union_all(
        select(Message.id, Message.parent_id, walk.c.depth + 1).join(walk, Message.id == walk.c.parent_id)
    )
    branch = select(Message).join(walk, Message.id == walk.c.id).order_by(walk.c.depth.desc())
    messages = list(session.scalars(branch))
    if any(message.deleted_at is not None for message in messages):
        raise NotFound(f"There is no message {leaf_id}: its branch was deleted.")
    return messages


def following(session: Session, message_id: str) -> list[Message]:
    """The message and all that follow it, without branches that were deleted."""
    walk = select(Message.id).where(Message.id == message_id).cte("following", recursive=True)
    after = select(Message.id).join(walk, Message.parent_id == walk.c.id).where(Message.deleted_at.is_(None))
    walk = walk.union_all(after)
    return list(session.scalars(select(Message).join(walk, Message.id == walk.c.id)))


def newest_leaf(session: Session, message_id: str) -> str:
    """The newest message at or after this one, deleted branches aside: it ends the branch last worked on."""
    steps = select(Message.id, Message.created_at, literal(0).label("depth")).where(Message.id == message_id)
    walk = steps.cte("after", recursive=True)
    following = select(Message.id, Message.created_at, walk.c.depth + 1)
    following = following.join(walk, Message.parent_id == walk.c.id).where(Message.deleted_at.is_(None))
    walk = walk.union_all(following)
    # A question and its reply are of one moment.
    newest = select(walk.c.id).order_by(walk.c.created_at.desc(), walk.c.depth.desc(), walk.c.id)
    leaf: str = session.scalars(newest.limit(1)).one()
    return leaf
