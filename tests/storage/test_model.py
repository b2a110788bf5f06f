"""Storage against plain dictionaries, through random histories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from storage.conversations import Conversations
from storage.database import Database
from storage.errors import Conflict, NotFound
from storage.records import ConversationRecord, MessageRecord, NewTurn, Status
from tests.storage.examples import a_turn, an_end

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ENDED = (Status.DONE, Status.INTERRUPTED)


class StorageModel(RuleBasedStateMachine):
    turns = Bundle("turns")
    chats = Bundle("chats")
    messages = Bundle("messages")

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.chats_kept: dict[str, ConversationRecord] = {}
        self.messages_kept: dict[str, MessageRecord] = {}
        self.open()

    def open(self) -> None:
        self.database = Database.open(Path(self.folder.name))
        self.store = Conversations(self.database)

    def teardown(self) -> None:
        self.database.close()
        self.folder.cleanup()

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
        kept = self.messages_kept.get(parent)
        turn = a_turn(
            conversation_id=kept.conversation_id if kept else "gone",
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

    def user_of(self, turn: NewTurn) -> MessageRecord | None:
        kept = self.messages_kept.values()
        return next((each for each in kept if each.client_id == turn.client_id), None)

    @rule(turn=turns)
    def repeat(self, turn: NewTurn) -> None:
        user = self.user_of(turn)
        if user is None:
            return
        again = self.store.begin_turn(turn)
        assert again.repeated
        assert again.user == user
        assert again.reply == self.messages_kept[again.reply.id]
        assert again.reply.parent_id == user.id
        assert again.conversation == self.chats_kept[user.conversation_id]

    @rule(turn=turns)
    def repeat_with_another_text(self, turn: NewTurn) -> None:
        if self.user_of(turn) is not None:
            with pytest.raises(Conflict):
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
                finished_at=self.store.message(message).finished_at,
            )

    @rule(chat=chats, title=TEXT)
    def rename(self, chat: str, title: str) -> None:
        if chat not in self.chats_kept:
            with pytest.raises(NotFound):
                self.store.rename(chat, title)
            return
        self.chats_kept[chat] = replace(self.chats_kept[chat], title=title)
        assert self.store.rename(chat, title) == self.chats_kept[chat]

    @rule(chat=consumes(chats))
    def delete(self, chat: str) -> None:
        if self.chats_kept.pop(chat, None) is None:
            with pytest.raises(NotFound):
                self.store.delete(chat)
            return
        self.store.delete(chat)
        for message in [each for each in self.messages_kept.values() if each.conversation_id == chat]:
            del self.messages_kept[message.id]

    @rule()
    def reopen(self) -> None:
        self.database.close()
        self.open()

    @rule()
    def restart_after_a_crash(self) -> None:
        left = [each for each in self.messages_kept.values() if each.status not in ENDED]
        assert self.store.interrupt_leftovers() == len(left)
        for each in left:
            finished_at = self.store.message(each.id).finished_at
            self.messages_kept[each.id] = replace(each, status=Status.INTERRUPTED, finished_at=finished_at)

    @rule(message=messages)
    def walk(self, message: str) -> None:
        kept = self.messages_kept.get(message)
        if kept is None:
            return
        branch = [kept]
        while (parent := branch[0].parent_id) is not None:
            branch.insert(0, self.messages_kept[parent])
        assert self.store.path(kept.conversation_id, message) == branch

    @invariant()
    def the_list_holds_what_was_kept(self) -> None:
        listed = self.store.list_recent(limit=1000)
        assert {each.id: each for each in listed} == self.chats_kept
        assert listed == sorted(listed, key=lambda each: (each.updated_at, each.id), reverse=True)


TestStorageModel = StorageModel.TestCase
TestStorageModel.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
