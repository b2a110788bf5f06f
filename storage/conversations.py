"""Conversations and their messages: what is kept, and when it counts as kept.

Every method is one transaction: when it returns, its change is on the disk. All of them block: call them
from a pool thread. Any may raise `StorageError`, and then nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime

from sqlalchemy import literal, select, tuple_, update

from storage.database import Database
from storage.lookup import find_branch, find_conversation, find_live, find_message, is_live
from storage.records import (
    AskedContinuation,
    AskedReply,
    AskedTurn,
    ConversationRecord,
    MessageRecord,
    NewContinuation,
    NewReply,
    NewTurn,
    ReplyEnd,
    StartedTurn,
    Status,
)
from storage.search_index import index_message, index_title
from storage.tables import NOT_DELETED, TITLE_LENGTH, UNFINISHED, Conversation, Message
from storage.turns import (
    find_command,
    repeat_continuation,
    repeat_reply,
    repeat_turn,
    start_continuation,
    start_reply,
    start_turn,
)


def utc_now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


class Conversations:
    """The conversations of one database."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    def begin_turn(self, turn: NewTurn) -> StartedTurn:
        """Keeps the user's message and a pending reply to it, which becomes the conversation's head.

        A client id that was already taken for the same text, parent and conversation (None: the one it
        began) gives those rows as they are now, `repeated`; for anything else it raises `Conflict`. Raises
        `NotFound` for an unknown conversation, and for a parent that is not in it.
        """
        with self._database.write() as session:
            made = find_command(session, turn.client_id)
            if made is not None:
                return repeat_turn(session, made, turn)
            return start_turn(session, turn, self._clock())

    def begin_reply(self, new: NewReply) -> StartedTurn:
        """Keeps another pending reply to a question, which becomes the conversation's head.

        A repeated client id is answered as by `begin_turn`. Raises `NotFound` for an unknown question.
        """
        with self._database.write() as session:
            made = find_command(session, new.client_id)
            if made is not None:
                return repeat_reply(session, made, new)
            return start_reply(session, new, self._clock())

    def begin_continuation(self, new: NewContinuation) -> StartedTurn:
        """Makes a reply pending again, with the text and the token ids that it has; it becomes the head.

        A repeated client id is answered as by `begin_turn`. Raises `NotFound` for an unknown reply, and
        `Conflict` for one that has not ended or that something was said after.
        """
        with self._database.write() as session:
            made = find_command(session, new.client_id)
            if made is not None:
                return repeat_continuation(session, made, new)
            return start_continuation(session, new, self._clock())

    def earlier(self, asked: AskedTurn | AskedReply | AskedContinuation) -> StartedTurn | None:
        """What a `begin_…` would repeat; None where the client id is new. Raises `Conflict`."""
        with self._database.read() as session:
            made = find_command(session, asked.client_id)
            if made is None:
                return None
            if isinstance(asked, AskedTurn):
                return repeat_turn(session, made, asked)
            if isinstance(asked, AskedReply):
                return repeat_reply(session, made, asked)
            return repeat_continuation(session, made, asked)

    def mark_running(self, reply_id: str) -> bool:
        """Whether the reply was pending, and is now running."""
        with self._database.write() as session:
            change = update(Message).where(Message.id == reply_id, Message.status == Status.PENDING)
            return session.scalar(change.values(status=Status.RUNNING).returning(Message.id)) is not None

    def checkpoint(
        self, reply_id: str, text: str, token_ids: tuple[int, ...], reasoning: str | None = None
    ) -> bool:
        """Keeps what a pending or running reply has so far. False, and nothing kept, once it has ended."""
        with self._database.write() as session:
            change = update(Message).where(Message.id == reply_id, UNFINISHED)
            change = change.values(text=text, token_ids=token_ids, reasoning=reasoning)
            return session.scalar(change.returning(Message.id)) is not None

    def finish(self, reply_id: str, end: ReplyEnd) -> bool:
        """Keeps how a pending or running reply ended.

        False, and nothing kept, when it had already ended or its conversation was deleted. Raises
        `ValueError` for a status that is no end.
        """
        if end.status not in (Status.DONE, Status.INTERRUPTED):
            raise ValueError(f"A reply ends as done or interrupted, not as {end.status}.")
        with self._database.write() as session:
            reply = session.scalar(select(Message).where(Message.id == reply_id, UNFINISHED))
            if reply is None:
                return False
            reply.text = end.text
            reply.token_ids = end.token_ids
            reply.status = end.status
            reply.finish_reason = end.finish_reason
            reply.usage = None if end.usage is None else dict(end.usage)
            reply.timings = None if end.timings is None else dict(end.timings)
            reply.context = None if end.context is None else dict(end.context)
            reply.error = end.error
            reply.reasoning = end.reasoning
            reply.finished_at = self._clock()
            if is_live(session, reply.id):
                index_message(session, reply)
            return True

    def unfinished(self) -> dict[str, str]:
        """All replies that are pending or running: their ids, and which conversation each is in."""
        with self._database.read() as session:
            rows = session.execute(select(Message.id, Message.conversation_id).where(UNFINISHED))
            return {reply_id: conversation_id for reply_id, conversation_id in rows}

    def interrupt_leftovers(self, ids: Collection[str] | None = None) -> int:
        """Ends the replies that an earlier process left behind, with the text they had. Returns how many.

        Without `ids` only for start-up: a reply that is running now would be ended as well.
        """
        some = select(Message).where(UNFINISHED)
        some = some if ids is None else some.where(Message.id.in_(ids))
        with self._database.write() as session:
            leftovers = session.scalars(some).all()
            for reply in leftovers:
                reply.status, reply.finished_at = Status.INTERRUPTED, self._clock()
                if is_live(session, reply.id):
                    index_message(session, reply)
            return len(leftovers)

    def get(self, conversation_id: str) -> ConversationRecord:
        """Raises `NotFound`."""
        with self._database.read() as session:
            return find_conversation(session, conversation_id).record()

    def message(self, message_id: str, conversation_id: str | None = None) -> MessageRecord:
        """A message, of that conversation where one is named. Raises `NotFound`, for deleted ones too."""
        with self._database.read() as session:
            return find_live(session, message_id, conversation_id).record()

    def path(self, conversation_id: str, leaf_id: str | None = None) -> list[MessageRecord]:
        """The branch from its first message to `leaf_id`, or to the conversation's head.

        Raises `NotFound` for an unknown conversation, and for a leaf that is not in it.
        """
        with self._database.read() as session:
            conversation = find_conversation(session, conversation_id)
            leaf_id = leaf_id or conversation.head_id
            if leaf_id is None:
                return []
            find_message(session, leaf_id, conversation_id)
            return [row.record() for row in find_branch(session, leaf_id)]

    def list_recent(
        self, limit: int = 50, before: tuple[datetime, str] | None = None
    ) -> list[ConversationRecord]:
        """At most `limit` conversations, newest turn first, archived ones too.

        `before` is `(updated_at, id)` of the last one already seen: the page goes on after it.
        """
        place = tuple_(Conversation.updated_at, Conversation.id)
        page = select(Conversation).where(NOT_DELETED)
        page = page.order_by(Conversation.updated_at.desc(), Conversation.id.desc())
        if before is not None:
            page = page.where(place < tuple_(literal(before[0], Conversation.updated_at.type), before[1]))
        with self._database.read() as session:
            return [row.record() for row in session.scalars(page.limit(limit))]

    def rename(self, conversation_id: str, title: str) -> ConversationRecord:
        """Keeps the first 200 characters of the title. Its place in the list stays. Raises `NotFound`."""
        with self._database.write() as session:
            conversation = find_conversation(session, conversation_id)
            conversation.title = title[:TITLE_LENGTH]
            index_title(session, conversation)
            return conversation.record()
