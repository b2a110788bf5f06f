"""Beginning a turn within a writing session that the caller holds."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from storage.errors import Conflict
from storage.lookup import find_conversation, find_message
from storage.records import NEW_MESSAGE, AskedTurn, NewTurn, StartedTurn, Status
from storage.tables import TITLE_LENGTH, Conversation, Message


def start_turn(session: Session, turn: NewTurn, now: datetime) -> StartedTurn:
    """Adds the rows of a turn. Raises `NotFound` for a conversation or parent that is not there."""
    conversation = _conversation_for(session, turn, now)
    if turn.parent_id is not None:
        find_message(session, turn.parent_id, conversation.id)
    user = _user_message(conversation, turn, now)
    reply = _pending_reply(user, turn, now)
    # Without a relationship the order of inserts is not derived, and each row refers to the one before.
    for row in (conversation, user, reply):
        session.add(row)
        session.flush()
    conversation.head_id = reply.id
    conversation.cut_id = user.id if turn.cut_id == NEW_MESSAGE else turn.cut_id
    conversation.updated_at = now
    return StartedTurn(conversation.record(), user.record(), reply.record(), repeated=False)


def repeat_turn(session: Session, user: Message, turn: AskedTurn) -> StartedTurn:
    """What the turn with this user message had added. Raises `Conflict` where it was another turn."""
    conversation = find_conversation(session, user.conversation_id)
    began_it = conversation.created_at == user.created_at
    same_place = turn.conversation_id == conversation.id or (turn.conversation_id is None and began_it)
    if not same_place or (turn.text, turn.parent_id) != (user.text, user.parent_id):
        raise Conflict(f"The id {turn.client_id} was already used for another text or in another place.")
    replies = select(Message).where(Message.parent_id == user.id).order_by(Message.created_at, Message.id)
    reply = session.scalars(replies.limit(1)).one()
    return StartedTurn(conversation.record(), user.record(), reply.record(), repeated=True)


def _conversation_for(session: Session, turn: NewTurn, now: datetime) -> Conversation:
    if turn.conversation_id is not None:
        return find_conversation(session, turn.conversation_id)
    return Conversation(
        id=uuid4().hex,
        title=turn.title[:TITLE_LENGTH],
        system_prompt=turn.system_prompt,
        created_at=now,
        updated_at=now,
        params=dict(turn.choices.params),
        thinking=turn.choices.thinking,
    )


def _user_message(conversation: Conversation, turn: NewTurn, now: datetime) -> Message:
    return Message(
        id=uuid4().hex,
        conversation_id=conversation.id,
        parent_id=turn.parent_id,
        client_id=turn.client_id,
        role="user",
        text=turn.text,
        status=Status.DONE,
        created_at=now,
    )


def _pending_reply(user: Message, turn: NewTurn, now: datetime) -> Message:
    return Message(
        id=uuid4().hex,
        conversation_id=user.conversation_id,
        parent_id=user.id,
        role="assistant",
        text="",
        status=Status.PENDING,
        created_at=now,
        model=turn.model,
        params=dict(turn.params),
    )
