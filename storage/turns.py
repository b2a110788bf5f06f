"""Beginning turns and replies, within a writing session that the caller holds."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from storage.errors import Conflict, NotFound
from storage.lookup import find_conversation, find_live, find_message
from storage.records import (
    NEW_MESSAGE,
    AskedContinuation,
    AskedReply,
    AskedTurn,
    NewContinuation,
    NewReply,
    NewTurn,
    StartedTurn,
    Status,
)
from storage.search_index import index_message, index_title
from storage.tables import TITLE_LENGTH, UNFINISHED, Continuation, Conversation, Message


def find_command(session: Session, client_id: str) -> Message | Continuation | None:
    """What the command with that id had made; None where the id is new."""
    made = session.scalar(select(Message).where(Message.client_id == client_id))
    return made or session.get(Continuation, client_id)


def start_turn(session: Session, turn: NewTurn, now: datetime) -> StartedTurn:
    """Adds the rows of a turn. Raises `NotFound` for a conversation or parent that is not there."""
    conversation = _conversation_for(session, turn, now)
    if turn.parent_id is not None:
        find_live(session, turn.parent_id, conversation.id)
    user = _user_message(conversation, turn, now)
    reply = _pending_reply(user, turn, None, now)
    # Without a relationship the order of inserts is not derived, and each row refers to the one before.
    for row in (conversation, user, reply):
        session.add(row)
        session.flush()
    if turn.conversation_id is None:
        index_title(session, conversation)
    index_message(session, user)
    conversation.head_id = reply.id
    conversation.cut_id = user.id if turn.cut_id == NEW_MESSAGE else turn.cut_id
    conversation.updated_at = now
    return StartedTurn(conversation.record(), user.record(), reply.record(), repeated=False)


def repeat_turn(session: Session, made: Message | Continuation, turn: AskedTurn) -> StartedTurn:
    """What the turn with this client id had added. Raises `Conflict` where it was another command, and
    `NotFound` where its reply was deleted for good.
    """
    if not isinstance(made, Message) or made.role != "user":
        raise _another(turn.client_id)
    conversation = find_conversation(session, made.conversation_id)
    began_it = conversation.created_at == made.created_at
    same_place = turn.conversation_id == conversation.id or (turn.conversation_id is None and began_it)
    if not same_place or (turn.text, turn.parent_id) != (made.text, made.parent_id):
        raise _another(turn.client_id)
    replies = select(Message).where(Message.parent_id == made.id).order_by(Message.created_at, Message.id)
    reply = session.scalars(replies.limit(1)).first()
    if reply is None:
        raise NotFound(f"The reply to {made.id} was deleted.")
    return StartedTurn(conversation.record(), made.record(), reply.record(), repeated=True)


def start_reply(session: Session, new: NewReply, now: datetime) -> StartedTurn:
    """Adds another reply to a question. Raises `NotFound` for a question that is not there."""
    question = find_live(session, new.question_id, new.conversation_id)
    if question.role != "user":
        raise NotFound(f"There is no question {new.question_id}.")
    reply = _pending_reply(question, new, new.client_id, now)
    session.add(reply)
    session.flush()
    return _moved_to(session, reply, new.cut_id, now)


def repeat_reply(session: Session, made: Message | Continuation, asked: AskedReply) -> StartedTurn:
    """What the command with this client id had added. Raises `Conflict` where it was another."""
    place = (asked.conversation_id, asked.question_id)
    if (
        not isinstance(made, Message)
        or made.role == "user"
        or (made.conversation_id, made.parent_id) != place
    ):
        raise _another(asked.client_id)
    return _as_it_is(session, made)


def start_continuation(session: Session, new: NewContinuation, now: datetime) -> StartedTurn:
    """Makes an ended reply pending again; its text and token ids stay. Raises `NotFound`, and `Conflict`
    where it has not ended or something was said after it.
    """
    reply = find_live(session, new.reply_id, new.conversation_id)
    if reply.role == "user":
        raise NotFound(f"There is no reply {new.reply_id}.")
    followers = select(Message.id).where(Message.parent_id == reply.id)
    if session.scalar(followers.limit(1)) is not None:
        raise Conflict("Something was already said after this reply: it can no longer go on.")
    if session.scalar(select(Message.id).where(Message.id == reply.id, UNFINISHED)) is not None:
        raise Conflict("This reply is still being written.")
    reply.status = Status.PENDING
    reply.finish_reason = reply.error = reply.finished_at = reply.usage = reply.timings = None
    reply.context = dict(new.context)
    session.add(Continuation(client_id=new.client_id, message_id=reply.id))
    session.flush()
    return _moved_to(session, reply, new.cut_id, now)


def repeat_continuation(
    session: Session, made: Message | Continuation, asked: AskedContinuation
) -> StartedTurn:
    """The reply that the command with this client id let go on. Raises `Conflict` where it was another."""
    if not isinstance(made, Continuation) or made.message_id != asked.reply_id:
        raise _another(asked.client_id)
    reply = find_message(session, made.message_id)
    if reply.conversation_id != asked.conversation_id:
        raise _another(asked.client_id)
    return _as_it_is(session, reply)


def _moved_to(session: Session, reply: Message, cut_id: str | None, now: datetime) -> StartedTurn:
    conversation = find_conversation(session, reply.conversation_id)
    conversation.head_id, conversation.cut_id, conversation.updated_at = reply.id, cut_id, now
    question = find_message(session, reply.parent_id or "")
    return StartedTurn(conversation.record(), question.record(), reply.record(), repeated=False)


def _as_it_is(session: Session, reply: Message) -> StartedTurn:
    conversation = find_conversation(session, reply.conversation_id)
    question = find_message(session, reply.parent_id or "")
    return StartedTurn(conversation.record(), question.record(), reply.record(), repeated=True)


def _another(client_id: str) -> Conflict:
    return Conflict(f"The id {client_id} was already used for another text or in another place.")


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
        person_id=turn.person_id,
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
        person_id=turn.person_id,
    )


def _pending_reply(
    question: Message, new: NewTurn | NewReply, client_id: str | None, now: datetime
) -> Message:
    return Message(
        id=uuid4().hex,
        conversation_id=question.conversation_id,
        parent_id=question.id,
        client_id=client_id,
        role="assistant",
        text="",
        status=Status.PENDING,
        created_at=now,
        model=new.model,
        params=dict(new.params),
        person_id=new.person_id,
    )
