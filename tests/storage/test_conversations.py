from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from sqlalchemy import text

from storage.conversations import Conversations, utc_now
from storage.database import Database
from storage.errors import Conflict, NotFound
from storage.listing import Listing
from storage.records import StartedTurn, Status
from tests.storage.examples import a_turn, an_end, follow

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def messages_in(database: Database) -> int:
    with database.read() as session:
        return session.scalar(text("SELECT count(*) FROM messages")) or 0


def a_clock(*minutes: int) -> Callable[[], datetime]:
    moments = iter(minutes)
    return lambda: NOON + timedelta(minutes=next(moments))


def test_a_turn_keeps_the_question_and_a_pending_reply(conversations: Conversations) -> None:
    turn = a_turn()
    started = conversations.begin_turn(turn)
    assert (started.user.text, started.user.status) == (turn.text, Status.DONE)
    assert (started.reply.text, started.reply.status) == ("", Status.PENDING)
    assert (started.reply.model, started.reply.params) == (turn.model, turn.params)
    assert started.reply.parent_id == started.user.id
    assert conversations.path(started.conversation.id) == [started.user, started.reply]
    assert conversations.get(started.conversation.id) == started.conversation
    assert started.conversation.head_id == started.reply.id


def test_a_further_turn_moves_the_head_and_the_cut(conversations: Conversations) -> None:
    first = conversations.begin_turn(a_turn())
    second = follow(conversations, first, cut_id=first.reply.id, title="ignored", system_prompt="ignored")
    kept = conversations.get(first.conversation.id)
    assert kept == second.conversation
    assert (kept.head_id, kept.cut_id) == (second.reply.id, first.reply.id)
    assert (kept.title, kept.system_prompt) == ("Greetings", "Be brief.")


def test_text_comes_back_exactly(conversations: Conversations) -> None:
    strange = "가\r\n\0\u200d👩‍👩‍👧 \ufeff'\"; DROP TABLE messages; --"
    started = conversations.begin_turn(a_turn(text=strange, title=strange))
    assert conversations.message(started.user.id).text == strange
    assert conversations.get(started.conversation.id).title == strange


def test_text_that_is_not_unicode_changes_nothing(database: Database, conversations: Conversations) -> None:
    with pytest.raises(UnicodeEncodeError):
        conversations.begin_turn(a_turn(text="\ud800"))
    assert messages_in(database) == 0
    assert conversations.list_recent() == []


def test_a_repeated_client_id_starts_nothing_twice(database: Database, conversations: Conversations) -> None:
    turn = a_turn()
    started = conversations.begin_turn(turn)
    assert conversations.begin_turn(turn) == replace(started, repeated=True)
    named = replace(turn, conversation_id=started.conversation.id)
    assert conversations.begin_turn(named) == replace(started, repeated=True)
    assert messages_in(database) == 2


def test_a_repeat_gives_the_rows_as_they_are_now(conversations: Conversations) -> None:
    turn = a_turn()
    started = conversations.begin_turn(turn)
    conversations.finish(started.reply.id, an_end())
    later = follow(conversations, started)
    repeated = conversations.begin_turn(turn)
    assert repeated.reply == conversations.message(started.reply.id)
    assert repeated.conversation == later.conversation


@pytest.mark.parametrize(
    "change", [{"text": "other"}, {"parent_id": "other"}, {"conversation_id": "other"}, {"parent_id": None}]
)
def test_a_client_id_with_another_body_conflicts(
    database: Database, conversations: Conversations, change: dict[str, Any]
) -> None:
    first = conversations.begin_turn(a_turn())
    turn = a_turn(conversation_id=first.conversation.id, parent_id=first.reply.id)
    conversations.begin_turn(turn)
    with pytest.raises(Conflict):
        conversations.begin_turn(replace(turn, **change))
    assert messages_in(database) == 4


def test_a_further_turn_does_not_repeat_as_a_new_conversation(conversations: Conversations) -> None:
    first = conversations.begin_turn(a_turn())
    branch = a_turn(conversation_id=first.conversation.id)
    conversations.begin_turn(branch)
    with pytest.raises(Conflict):
        conversations.begin_turn(replace(branch, conversation_id=None))


def test_threads_with_one_client_id_start_one_turn(database: Database, conversations: Conversations) -> None:
    turn, start, answers = a_turn(), Barrier(8), []

    def send() -> None:
        start.wait()
        answers.append(conversations.begin_turn(turn))

    threads = [Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({answer.reply.id for answer in answers}) == 1
    assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7
    assert messages_in(database) == 2


def test_unknown_places_are_not_found(database: Database, conversations: Conversations) -> None:
    first, other = conversations.begin_turn(a_turn()), conversations.begin_turn(a_turn())
    for place in [
        {"conversation_id": "absent"},
        {"parent_id": first.reply.id},
        {"conversation_id": first.conversation.id, "parent_id": "absent"},
        {"conversation_id": first.conversation.id, "parent_id": other.reply.id},
    ]:
        with pytest.raises(NotFound):
            conversations.begin_turn(a_turn(**place))
    assert messages_in(database) == 4
    assert len(conversations.list_recent()) == 2


def test_a_path_is_the_branch_that_ends_in_its_leaf(conversations: Conversations) -> None:
    first = conversations.begin_turn(a_turn())
    second = follow(conversations, first)
    edited = follow(conversations, first, text="edited")
    third = follow(conversations, edited)
    chat = first.conversation.id
    start = [first.user, first.reply]
    assert conversations.path(chat) == [*start, edited.user, edited.reply, third.user, third.reply]
    assert conversations.path(chat, second.reply.id) == [*start, second.user, second.reply]
    assert conversations.path(chat, edited.user.id) == [*start, edited.user]
    assert conversations.path(chat, first.user.id) == [first.user]


def test_a_path_needs_a_leaf_of_the_conversation(conversations: Conversations) -> None:
    first, other = conversations.begin_turn(a_turn()), conversations.begin_turn(a_turn())
    for chat, leaf in [(first.conversation.id, other.reply.id), (first.conversation.id, "absent")]:
        with pytest.raises(NotFound):
            conversations.path(chat, leaf)
    with pytest.raises(NotFound):
        conversations.path("absent")


def test_a_reply_runs_once(conversations: Conversations) -> None:
    reply = conversations.begin_turn(a_turn()).reply
    assert conversations.mark_running(reply.id)
    assert conversations.message(reply.id).status is Status.RUNNING
    assert not conversations.mark_running(reply.id)


def test_an_end_is_kept_whole(conversations: Conversations) -> None:
    reply = conversations.begin_turn(a_turn()).reply
    conversations.mark_running(reply.id)
    end = an_end(error="The model failed.")
    assert conversations.finish(reply.id, end)
    kept = conversations.message(reply.id)
    for field in ("text", "token_ids", "status", "finish_reason", "usage", "timings", "context", "error"):
        assert getattr(kept, field) == getattr(end, field)
    assert kept.finished_at is not None
    assert kept.finished_at >= kept.created_at


def test_what_has_ended_does_not_change(conversations: Conversations) -> None:
    reply = conversations.begin_turn(a_turn()).reply
    conversations.finish(reply.id, an_end("first"))
    kept = conversations.message(reply.id)
    assert not conversations.finish(reply.id, an_end("second"))
    assert not conversations.checkpoint(reply.id, "late", (9,))
    assert not conversations.mark_running(reply.id)
    assert conversations.message(reply.id) == kept


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
def test_a_reply_cannot_end_as_unfinished(conversations: Conversations, status: Status) -> None:
    reply = conversations.begin_turn(a_turn()).reply
    with pytest.raises(ValueError, match=status):
        conversations.finish(reply.id, an_end(status=status))


def test_leftovers_are_interrupted_with_their_text(conversations: Conversations) -> None:
    turns = [conversations.begin_turn(a_turn()) for _ in range(3)]
    pending, running, done = (turn.reply.id for turn in turns)
    conversations.mark_running(running)
    conversations.checkpoint(running, "반쯤", (5, 6))
    conversations.finish(done, an_end())
    ended = conversations.message(done)
    assert conversations.interrupt_leftovers() == 2
    kept = conversations.message(running)
    assert (kept.text, kept.token_ids, kept.status) == ("반쯤", (5, 6), Status.INTERRUPTED)
    assert kept.finished_at is not None
    assert conversations.message(pending).status is Status.INTERRUPTED
    assert conversations.message(done) == ended
    assert conversations.interrupt_leftovers() == 0


def test_deleting_takes_every_message_with_it(database: Database, conversations: Conversations) -> None:
    turn = conversations.begin_turn(a_turn())
    other = conversations.begin_turn(a_turn())
    chat = turn.conversation.id
    for _ in range(600):
        turn = follow(conversations, turn)
    listing = Listing(database)
    listing.delete(chat)
    listing.purge(utc_now() + timedelta(seconds=1))
    assert messages_in(database) == 2
    assert conversations.list_recent() == [other.conversation]
    for gone in (conversations.get, conversations.path, listing.delete, listing.restore):
        with pytest.raises(NotFound):
            gone(chat)


def test_a_reply_that_ends_after_its_conversation_is_dropped_quietly(
    database: Database, conversations: Conversations
) -> None:
    turn = conversations.begin_turn(a_turn())
    listing = Listing(database)
    listing.delete(turn.conversation.id)
    listing.purge(utc_now() + timedelta(seconds=1))
    assert not conversations.mark_running(turn.reply.id)
    assert not conversations.checkpoint(turn.reply.id, "late", ())
    assert not conversations.finish(turn.reply.id, an_end())
    with pytest.raises(NotFound):
        conversations.message(turn.reply.id)


def test_titles_keep_200_characters(conversations: Conversations) -> None:
    turn = conversations.begin_turn(a_turn(title="가" * 201))
    assert turn.conversation.title == "가" * 200
    renamed = conversations.rename(turn.conversation.id, "나" * 201)
    assert renamed == replace(turn.conversation, title="나" * 200)
    assert conversations.get(turn.conversation.id) == renamed


def test_renaming_what_is_not_there_is_not_found(conversations: Conversations) -> None:
    with pytest.raises(NotFound):
        conversations.rename("absent", "title")


def test_the_list_begins_with_the_newest_turn(database: Database) -> None:
    conversations = Conversations(database, a_clock(1, 2, 3))
    old, new = conversations.begin_turn(a_turn()), conversations.begin_turn(a_turn())
    assert conversations.list_recent() == [new.conversation, old.conversation]
    again = follow(conversations, old)
    assert conversations.list_recent() == [again.conversation, new.conversation]


def test_pages_of_the_list_miss_and_repeat_nothing(database: Database) -> None:
    conversations = Conversations(database, a_clock(1, 5, 5, 5, 5, 2, 9))
    begun: list[StartedTurn] = [conversations.begin_turn(a_turn()) for _ in range(7)]
    listed, before = [], None
    while page := conversations.list_recent(limit=2, before=before):
        assert len(page) <= 2
        listed += page
        before = (page[-1].updated_at, page[-1].id)
    assert listed == conversations.list_recent()
    assert {each.id for each in listed} == {turn.conversation.id for turn in begun}
