"""Several replies to a question, several questions in one place, and deleting them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from sqlalchemy import text

from storage.branches import Branches
from storage.conversations import Conversations
from storage.database import Database
from storage.errors import Conflict, NotFound
from storage.records import (
    MessageRecord,
    NewContinuation,
    NewReply,
    Siblings,
    StartedTurn,
    Status,
)
from storage.tables import Message
from tests.storage.examples import a_continuation, a_reply, a_turn, an_end, follow

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def first_of(messages: Sequence[MessageRecord]) -> str | None:
    return messages[0].id if messages else None


class Store:
    """Conversations and branches by one clock, which moves with every look at it."""

    def __init__(self, database: Database) -> None:
        self.seconds: Iterator[int] = count()
        self.conversations = Conversations(database, self.now)
        self.branches = Branches(database, first_of, self.now)

    def now(self) -> datetime:
        return NOON + timedelta(seconds=next(self.seconds))

    def head(self, turn: StartedTurn) -> str | None:
        return self.conversations.get(turn.conversation.id).head_id

    def path(self, turn: StartedTurn) -> list[str]:
        return [message.id for message in self.conversations.path(turn.conversation.id)]


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


def test_another_reply_stands_beside_the_first_and_is_looked_at(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    store.conversations.finish(turn.reply.id, an_end("first"))
    again = store.conversations.begin_reply(a_reply(turn))
    assert (again.reply.parent_id, again.reply.status) == (turn.user.id, Status.PENDING)
    assert store.path(turn) == [turn.user.id, again.reply.id]
    assert store.conversations.message(turn.reply.id).text == "first"
    assert store.branches.siblings(turn.conversation.id) == {
        turn.reply.id: Siblings(1, 2, None, again.reply.id),
        again.reply.id: Siblings(2, 2, turn.reply.id, None),
    }


def test_a_branch_is_looked_at_where_it_was_last_worked_on(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    later = follow(store.conversations, turn)
    edited = store.conversations.begin_turn(a_turn(conversation_id=turn.conversation.id))
    assert store.path(turn) == [edited.user.id, edited.reply.id]
    moved = store.branches.switch(turn.conversation.id, turn.user.id)
    assert moved.conversation.head_id == later.reply.id
    assert moved.conversation.cut_id == turn.user.id
    assert moved.kept_id is None
    assert store.conversations.get(turn.conversation.id) == moved.conversation


def test_a_reply_that_goes_on_keeps_what_it_had(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    store.conversations.finish(turn.reply.id, an_end("half", finish_reason="abort"))
    going = store.conversations.begin_continuation(a_continuation(turn))
    assert (going.reply.id, going.reply.status) == (turn.reply.id, Status.PENDING)
    assert (going.reply.text, going.reply.token_ids) == ("half", an_end().token_ids)
    assert (going.reply.finish_reason, going.reply.usage) == (None, None)
    assert store.conversations.interrupt_leftovers() == 1
    assert store.conversations.message(turn.reply.id).text == "half"


def test_repeated_commands_do_nothing_twice(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    store.conversations.finish(turn.reply.id, an_end())
    new = a_reply(turn)
    first = store.conversations.begin_reply(new)
    store.conversations.finish(first.reply.id, an_end("half"))
    going = a_continuation(first)
    store.conversations.begin_continuation(going)
    store.conversations.finish(first.reply.id, an_end("whole"))
    for again in (store.conversations.begin_reply(new), store.conversations.begin_continuation(going)):
        assert again.repeated
        assert (again.reply.id, again.reply.text) == (first.reply.id, "whole")
    assert store.conversations.earlier(new) == store.conversations.begin_reply(new)
    assert store.conversations.earlier(a_reply(turn)) is None


def test_one_id_for_two_commands_conflicts(store: Store) -> None:
    turn, other = store.conversations.begin_turn(a_turn()), store.conversations.begin_turn(a_turn())
    new = store.conversations.begin_reply(a_reply(turn, client_id="x"))
    store.conversations.finish(new.reply.id, an_end())
    store.conversations.begin_continuation(a_continuation(new, client_id="y"))
    for used in ("x", "y"):
        with pytest.raises(Conflict):
            store.conversations.begin_turn(a_turn(client_id=used))
        with pytest.raises(Conflict):
            store.conversations.begin_reply(a_reply(other, client_id=used))
        with pytest.raises(Conflict):
            store.conversations.begin_continuation(a_continuation(other, client_id=used))


def test_a_reply_goes_on_only_where_it_ended_last(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    with pytest.raises(Conflict, match="being written"):
        store.conversations.begin_continuation(a_continuation(turn))
    store.conversations.finish(turn.reply.id, an_end())
    follow(store.conversations, turn)
    with pytest.raises(Conflict, match="already said"):
        store.conversations.begin_continuation(a_continuation(turn))


def test_commands_about_ids_of_another_conversation_or_kind_are_not_found(store: Store) -> None:
    turn, other = store.conversations.begin_turn(a_turn()), store.conversations.begin_turn(a_turn())
    chat, begin = turn.conversation.id, store.conversations
    for reply_id in (other.reply.id, turn.user.id, "absent"):
        with pytest.raises(NotFound):
            begin.begin_continuation(NewContinuation("c", chat, reply_id, None, {}))
    for question_id in (other.user.id, turn.reply.id, "absent"):
        with pytest.raises(NotFound):
            begin.begin_reply(NewReply("r", chat, question_id, None, "scripted", {}))
    for act in (store.branches.switch, store.branches.delete, store.branches.restore):
        for message_id in (other.user.id, "absent"):
            with pytest.raises(NotFound):
                act(chat, message_id)


def test_deleting_moves_to_the_nearest_sibling_and_takes_all_that_follows(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    second = store.conversations.begin_reply(a_reply(turn))
    third = store.conversations.begin_reply(a_reply(turn))
    store.branches.switch(turn.conversation.id, second.reply.id)
    later = follow(store.conversations, second)
    assert store.path(turn)[1:] == [second.reply.id, later.user.id, later.reply.id]
    moved = store.branches.delete(turn.conversation.id, second.reply.id)
    assert (moved.conversation.head_id, moved.kept_id) == (turn.reply.id, turn.user.id)
    assert store.branches.siblings(turn.conversation.id).keys() == {turn.reply.id, third.reply.id}
    for gone in (second.reply.id, later.reply.id):
        with pytest.raises(NotFound):
            store.conversations.message(gone)
        with pytest.raises(NotFound):
            store.conversations.begin_turn(a_turn(conversation_id=turn.conversation.id, parent_id=gone))
        with pytest.raises(NotFound):
            store.branches.switch(turn.conversation.id, gone)
    assert store.branches.delete(turn.conversation.id, second.reply.id) == moved


def test_deleting_the_only_reply_leaves_the_question_and_the_only_question_leaves_nothing(
    store: Store,
) -> None:
    turn = store.conversations.begin_turn(a_turn())
    assert store.branches.delete(turn.conversation.id, turn.reply.id).conversation.head_id == turn.user.id
    assert store.branches.delete(turn.conversation.id, turn.user.id).conversation.head_id is None
    assert store.path(turn) == []
    assert store.branches.leaves(turn.conversation.id) == []


def test_what_was_deleted_comes_back_until_it_is_purged(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    later = follow(store.conversations, turn)
    store.branches.delete(turn.conversation.id, later.user.id)
    assert store.branches.restore(turn.conversation.id, later.user.id).conversation.head_id == later.reply.id
    store.branches.delete(turn.conversation.id, later.user.id)
    before = store.now()
    assert store.branches.overdue(before) == {turn.conversation.id}
    store.branches.purge(before)
    assert store.branches.overdue(before) == set()
    with pytest.raises(NotFound):
        store.branches.restore(turn.conversation.id, later.user.id)
    assert store.path(turn) == [turn.user.id, turn.reply.id]


def test_purging_leaves_what_was_deleted_later(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    again = store.conversations.begin_reply(a_reply(turn))
    before = store.now()
    store.branches.delete(turn.conversation.id, again.reply.id)
    store.branches.purge(before)
    assert store.branches.restore(turn.conversation.id, again.reply.id).conversation.head_id == again.reply.id


def test_a_long_branch_is_purged_at_once(store: Store, database: Database) -> None:
    turn = store.conversations.begin_turn(a_turn())
    values = {"conversation_id": turn.conversation.id, "role": "user", "status": "done", "text": ""}
    with database.write() as session:
        parent = turn.reply.id
        for number in range(1_100):  # more than SQLite's depth of triggers
            session.add(Message(id=str(number), parent_id=parent, created_at=store.now(), **values))
            session.flush()
            parent = str(number)
    store.branches.delete(turn.conversation.id, turn.user.id)
    store.branches.purge(store.now())
    assert store.branches.leaves(turn.conversation.id) == []
    with database.read() as session:
        assert session.scalar(text("SELECT count(*) FROM messages")) == 0


def test_every_branch_has_one_leaf(store: Store) -> None:
    turn = store.conversations.begin_turn(a_turn())
    again = store.conversations.begin_reply(a_reply(turn))
    later = follow(store.conversations, turn)
    store.branches.delete(turn.conversation.id, again.reply.id)
    assert store.branches.leaves(turn.conversation.id) == [later.reply.id]
    store.branches.restore(turn.conversation.id, again.reply.id)
    assert set(store.branches.leaves(turn.conversation.id)) == {later.reply.id, again.reply.id}


def test_sibling_places_survive_a_restart(store: Store, database: Database) -> None:
    turn = store.conversations.begin_turn(a_turn())
    store.conversations.begin_reply(a_reply(turn))
    other = Branches(database, first_of)
    assert other.siblings(turn.conversation.id) == store.branches.siblings(turn.conversation.id)
