"""Storage against plain dictionaries, through random histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete

from storage.branches import Branches
from storage.conversations import Conversations
from storage.database import Database
from storage.errors import Conflict, NotFound, TooShort
from storage.folding import fold, terms_of
from storage.listing import Listing
from storage.records import ConversationRecord, MessageRecord, NewContinuation, NewReply, NewTurn, Status
from storage.search import Asked, Search
from storage.tables import Conversation, Message
from tests.storage.examples import a_turn, an_end

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ENDED = (Status.DONE, Status.INTERRUPTED)


def last_of(messages: Sequence[MessageRecord]) -> str | None:
    return messages[-1].id if messages else None


class StorageModel(RuleBasedStateMachine):
    turns = Bundle("turns")
    chats = Bundle("chats")
    messages = Bundle("messages")

    folder: Path
    """Where the database is: emptied before each history, since a new one takes longer than the history."""
    database: Database

    def __init__(self) -> None:
        super().__init__()
        with self.database.write() as session:
            session.execute(delete(Conversation))
        self.chats_kept: dict[str, ConversationRecord] = {}
        self.messages_kept: dict[str, MessageRecord] = {}
        self.deleted: set[str] = set()
        self.chats_deleted: set[str] = set()
        self.seconds = count()
        self.use()

    def now(self) -> datetime:
        return datetime(2026, 11, 29, tzinfo=UTC) + timedelta(seconds=next(self.seconds))

    def use(self) -> None:
        self.store = Conversations(self.database, self.now)
        self.branches = Branches(self.database, last_of, self.now)
        self.listing = Listing(self.database, self.now)
        self.search = Search(self.database)

    def begin(self, turn: NewTurn) -> object:
        started = self.store.begin_turn(turn)
        assert not started.repeated
        assert started.conversation.head_id == started.reply.id
        assert started.user.parent_id == turn.parent_id
        self.chats_kept[started.conversation.id] = started.conversation
        self.messages_kept[started.user.id] = started.user
        self.messages_kept[started.reply.id] = started.reply
        return started

    @rule(target=turns, text=TEXT, title=TEXT)
    def begin_conversation(self, text: str, title: str) -> NewTurn:
        turn = a_turn(text=text, title=title)
        self.begin(turn)
        return turn

    @rule(target=turns, parent=messages, text=TEXT)
    def begin_branch(self, parent: str, text: str) -> object:
        kept = self.live(parent)
        turn = a_turn(
            conversation_id=self.conversation_of(parent),
            parent_id=parent,
            cut_id=parent,
            text=text,
        )
        if kept is None:
            with pytest.raises(NotFound):
                self.store.begin_turn(turn)
            return multiple()
        self.begin(turn)
        return turn

    @rule(target=messages, turn=turns)
    def look_up_messages(self, turn: NewTurn) -> object:
        user = self.user_of(turn)
        return multiple(
            *(
                each.id
                for each in self.messages_kept.values()
                if user and user.id in (each.id, each.parent_id)
            )
        )

    @rule(target=chats, turn=turns)
    def look_up_chat(self, turn: NewTurn) -> object:
        user = self.user_of(turn)
        return user.conversation_id if user else multiple()

    def conversation_of(self, message: str) -> str:
        kept = self.messages_kept.get(message)
        return kept.conversation_id if kept else "gone"

    def branch(self, message: str) -> list[MessageRecord]:
        branch = [self.messages_kept[message]]
        while (parent := branch[0].parent_id) is not None:
            branch.insert(0, self.messages_kept[parent])
        return branch

    def live(self, message: str) -> MessageRecord | None:
        """The message, unless it or one before it was deleted."""
        if self.live_in_its_chat(message) is None or self.conversation_of(message) in self.chats_deleted:
            return None
        return self.messages_kept[message]

    def live_in_its_chat(self, message: str) -> MessageRecord | None:
        if message not in self.messages_kept or any(m.id in self.deleted for m in self.branch(message)):
            return None
        return self.messages_kept[message]

    def newest_leaf(self, message: str) -> str:
        after = [m for m in self.messages_kept if self.live(m) and message in [b.id for b in self.branch(m)]]
        return max(after, key=lambda m: (self.messages_kept[m].created_at, len(self.branch(m))))

    def move(self, chat: str, head: str | None) -> None:
        self.chats_kept[chat] = replace(self.chats_kept[chat], head_id=head, cut_id=head)

    @rule(target=messages, question=messages, seed=st.integers(0, 9))
    def answer_again(self, question: str, seed: int) -> object:
        kept = self.live(question)
        new = NewReply(f"r{next(self.seconds)}", self.conversation_of(question), question, question, "m", {})
        if kept is None or kept.role != "user":
            with pytest.raises(NotFound):
                self.store.begin_reply(new)
            return multiple()
        started = self.store.begin_reply(new)
        assert (started.user, started.conversation.head_id) == (kept, started.reply.id)
        assert self.store.begin_reply(new) == replace(started, repeated=True)
        self.chats_kept[kept.conversation_id] = started.conversation
        self.messages_kept[started.reply.id] = started.reply
        return started.reply.id

    @rule(message=messages)
    def go_on(self, message: str) -> None:
        kept, chat = self.live(message), self.conversation_of(message)
        new = NewContinuation(f"c{next(self.seconds)}", chat, message, None, {"continued": []})
        if kept is None or kept.role == "user":
            with pytest.raises(NotFound):
                self.store.begin_continuation(new)
            return
        followed = any(each.parent_id == message for each in self.messages_kept.values())
        if followed or kept.status not in ENDED:
            with pytest.raises(Conflict):
                self.store.begin_continuation(new)
            return
        started = self.store.begin_continuation(new)
        assert (started.reply.text, started.reply.token_ids) == (kept.text, kept.token_ids)
        self.chats_kept[chat] = started.conversation
        self.messages_kept[message] = started.reply

    @rule(message=messages)
    def switch(self, message: str) -> None:
        chat = self.conversation_of(message)
        if self.live(message) is None:
            with pytest.raises(NotFound):
                self.branches.switch(chat, message)
            return
        self.branches.switch(chat, message)
        self.move(chat, self.newest_leaf(message))

    @rule(message=messages)
    def delete_branch(self, message: str) -> None:
        chat = self.conversation_of(message)
        if self.live(message) is None:
            if message not in self.deleted:
                with pytest.raises(NotFound):
                    self.branches.delete(chat, message)
            return
        head = self.chats_kept[chat].head_id
        looked_at = [m.id for m in self.branch(head)] if head else []
        self.deleted.add(message)
        moved = self.branches.delete(chat, message)
        if message in looked_at:
            left = moved.conversation.head_id
            parent = self.messages_kept[message].parent_id
            siblings = [m for m in self.messages_kept.values() if m.parent_id == parent and self.live(m.id)]
            siblings = [m for m in siblings if m.conversation_id == chat]
            if siblings:
                assert left in [self.newest_leaf(sibling.id) for sibling in siblings]
            else:
                assert left == parent
            self.move(chat, left)

    @rule(message=messages)
    def bring_back(self, message: str) -> None:
        chat = self.conversation_of(message)
        if self.conversation_of(message) in self.chats_deleted:
            with pytest.raises(NotFound):
                self.branches.restore(chat, message)
            return
        was_deleted = message in self.deleted
        self.deleted.discard(message)
        if self.live(message) is None:
            self.deleted |= {message} if was_deleted else set()
            with pytest.raises(NotFound):
                self.branches.restore(chat, message)
            return
        self.branches.restore(chat, message)
        self.move(chat, self.newest_leaf(message))

    @rule()
    def purge(self) -> None:
        self.branches.purge(self.now())
        self.messages_kept = {
            id: kept for id, kept in self.messages_kept.items() if self.live_in_its_chat(id)
        }
        self.deleted.clear()

    @rule()
    def purge_chats(self) -> None:
        self.listing.purge(self.now())
        for chat in self.chats_deleted:
            del self.chats_kept[chat]
        gone = [m.id for m in self.messages_kept.values() if m.conversation_id in self.chats_deleted]
        for message in gone:
            del self.messages_kept[message]
        self.deleted -= set(gone)
        self.chats_deleted.clear()

    @invariant()
    def siblings_and_leaves_are_those_of_the_tree(self) -> None:
        for chat in self.chats_kept.keys() - self.chats_deleted:
            live = [m for m in self.messages_kept.values() if m.conversation_id == chat and self.live(m.id)]
            parents = [m.parent_id for m in live]
            assert set(self.branches.leaves(chat)) == {m.id for m in live if m.id not in parents}
            places = self.branches.siblings(chat)
            assert {id: p.count for id, p in places.items() if self.live(id)} == {
                m.id: parents.count(m.parent_id) for m in live if parents.count(m.parent_id) > 1
            }

    def user_of(self, turn: NewTurn) -> MessageRecord | None:
        kept = self.messages_kept.values()
        return next((each for each in kept if each.client_id == turn.client_id), None)

    @rule(turn=turns)
    def repeat(self, turn: NewTurn) -> None:
        user = self.user_of(turn)
        if user is None:
            return
        if user.conversation_id in self.chats_deleted:
            with pytest.raises(NotFound):
                self.store.begin_turn(turn)
            return
        if not any(each.parent_id == user.id and each.role != "user" for each in self.messages_kept.values()):
            with pytest.raises(NotFound):  # its only reply was purged
                self.store.begin_turn(turn)
            return
        again = self.store.begin_turn(turn)
        assert again.repeated
        assert again.user == user
        assert again.reply == self.messages_kept[again.reply.id]
        assert again.reply.parent_id == user.id
        assert again.conversation == self.chats_kept[user.conversation_id]

    @rule(turn=turns)
    def repeat_with_another_text(self, turn: NewTurn) -> None:
        user = self.user_of(turn)
        if user is not None:
            with pytest.raises(NotFound if user.conversation_id in self.chats_deleted else Conflict):
                self.store.begin_turn(replace(turn, text=turn.text + "!"))

    @rule(message=messages)
    def mark_running(self, message: str) -> None:
        kept = self.messages_kept.get(message)
        pending = kept is not None and kept.status is Status.PENDING
        assert self.store.mark_running(message) is pending
        if kept is not None and pending:
            self.messages_kept[message] = replace(kept, status=Status.RUNNING)

    @rule(message=messages, text=TEXT, ids=st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple))
    def checkpoint(self, message: str, text: str, ids: tuple[int, ...]) -> None:
        kept = self.messages_kept.get(message)
        unfinished = kept is not None and kept.status not in ENDED
        assert self.store.checkpoint(message, text, ids) is unfinished
        if kept is not None and unfinished:
            self.messages_kept[message] = replace(kept, text=text, token_ids=ids)

    @rule(message=messages, text=TEXT, status=st.sampled_from(ENDED))
    def finish(self, message: str, text: str, status: Status) -> None:
        end = an_end(text, status=status)
        kept = self.messages_kept.get(message)
        unfinished = kept is not None and kept.status not in ENDED
        assert self.store.finish(message, end) is unfinished
        if kept is not None and unfinished:
            self.messages_kept[message] = replace(
                kept,
                text=text,
                status=status,
                token_ids=end.token_ids,
                finish_reason=end.finish_reason,
                usage=end.usage,
                timings=end.timings,
                context=end.context,
                finished_at=self.finished_at(message),
            )

    def finished_at(self, message: str) -> datetime | None:
        with self.database.read() as session:  # whether or not its branch was deleted
            row = session.get(Message, message)
            return row.finished_at if row else None

    @rule(chat=chats, title=TEXT)
    def rename(self, chat: str, title: str) -> None:
        if not self.is_listed(chat):
            with pytest.raises(NotFound):
                self.store.rename(chat, title)
            return
        self.chats_kept[chat] = replace(self.chats_kept[chat], title=title)
        assert self.store.rename(chat, title) == self.chats_kept[chat]

    def is_listed(self, chat: str) -> bool:
        return chat in self.chats_kept and chat not in self.chats_deleted

    @rule(chat=chats, pinned=st.booleans())
    def pin(self, chat: str, pinned: bool) -> None:
        if not self.is_listed(chat):
            with pytest.raises(NotFound):
                self.listing.pin(chat, pinned)
            return
        self.chats_kept[chat] = replace(self.chats_kept[chat], pinned=pinned)
        assert self.listing.pin(chat, pinned) == self.chats_kept[chat]

    @rule(chat=chats, archived=st.booleans())
    def archive(self, chat: str, archived: bool) -> None:
        if not self.is_listed(chat):
            with pytest.raises(NotFound):
                self.listing.archive(chat, archived)
            return
        self.chats_kept[chat] = replace(self.chats_kept[chat], archived=archived)
        assert self.listing.archive(chat, archived) == self.chats_kept[chat]

    @rule(chat=chats)
    def delete(self, chat: str) -> None:
        if chat not in self.chats_kept:
            with pytest.raises(NotFound):
                self.listing.delete(chat)
            return
        self.listing.delete(chat)
        self.chats_deleted.add(chat)

    @rule(chat=chats)
    def restore(self, chat: str) -> None:
        if chat not in self.chats_kept:
            with pytest.raises(NotFound):
                self.listing.restore(chat)
            return
        assert self.listing.restore(chat) == self.chats_kept[chat]
        self.chats_deleted.discard(chat)

    @rule()
    def reopen(self) -> None:
        self.database.close()
        type(self).database = Database.open(self.folder)
        self.use()

    @rule()
    def restart_after_a_crash(self) -> None:
        left = [each for each in self.messages_kept.values() if each.status not in ENDED]
        assert self.store.interrupt_leftovers() == len(left)
        for each in left:
            finished_at = self.finished_at(each.id)
            self.messages_kept[each.id] = replace(each, status=Status.INTERRUPTED, finished_at=finished_at)

    @rule(message=messages)
    def walk(self, message: str) -> None:
        if self.live(message) is None:
            with pytest.raises(NotFound):
                self.store.path(self.conversation_of(message), message)
            return
        assert self.store.path(self.conversation_of(message), message) == self.branch(message)

    @invariant()
    def the_list_holds_what_was_kept(self) -> None:
        listed = self.store.list_recent(limit=1000)
        kept = [each for each in self.chats_kept.values() if each.id not in self.chats_deleted]
        newest_first = sorted(kept, key=lambda each: (each.updated_at, each.id), reverse=True)
        assert listed == newest_first
        archived = [each for each in newest_first if each.archived]
        pinned = [each for each in newest_first if each.pinned and not each.archived]
        assert self.listing.page(1000, archived=True) == archived
        assert self.listing.pinned() == pinned
        assert self.listing.page(1000) == [c for c in newest_first if c not in archived + pinned]

    @rule(query=TEXT)
    def search_for_anything(self, query: str) -> None:
        self.search_for(query)

    @rule(message=messages, start=st.integers(0, 18), length=st.integers(1, 4))
    def search_for_a_piece(self, message: str, start: int, length: int) -> None:
        kept = self.messages_kept.get(message)
        self.search_for(kept.text[start : start + length] if kept else "")

    def search_for(self, query: str) -> None:
        """What is found is what a look at every text finds; a reply counts once it has ended."""
        terms = terms_of(query)
        try:
            found = self.search.find(Asked(query), limit=1000)
        except TooShort:
            assert all(len(word) == 1 for term in terms for word in term.split())
            return
        ended = [m for m in self.messages_kept.values() if self.live(m.id) and m.status in ENDED]
        texts = {m.id: m.text for m in ended} | {c: self.chats_kept[c].title for c in self.chats_kept}
        for chat in self.chats_deleted:
            texts.pop(chat, None)
        right = {id for id, text in texts.items() if terms and all(t in fold(text) for t in terms)}
        going_on = {m.id for m in self.messages_kept.values() if m.status not in ENDED}
        assert {hit.message_id or hit.conversation_id for hit in found.hits} - going_on == right


@pytest.mark.row(5)
def test_storage_is_what_the_model_is(tmp_path: Path, long: bool) -> None:
    """The other examples of row 5 are those of the whole protocol, in `tests/reliability`."""
    machine = type("Machine", (StorageModel,), {"folder": tmp_path, "database": Database.open(tmp_path)})
    figures = settings(max_examples=16_000 if long else 460, stateful_step_count=30 if long else 6)
    run_state_machine_as_test(machine, settings=figures)
    machine.database.close()
