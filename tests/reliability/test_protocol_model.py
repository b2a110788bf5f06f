"""The protocol against plain dictionaries, through random histories of two tabs.

After every step the database holds what the model holds, a fresh snapshot shows it, and so do both tabs,
which only applied what they were told. `tests/storage/test_model.py` is the other half of row 5.

The app runs in this process, over ASGI: a real socket would tell nothing more about commands, and a server
that uvicorn starts and ends takes so long that few histories could have a restart in them. What sockets add
is tested on real ones by the other rows.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import select

from storage.conversations import Conversations, utc_now
from storage.database import Database
from storage.people_tables import Person
from storage.records import OWNER, StartedTurn
from storage.tables import Conversation, Message
from tests.reliability.gate import WAIT_S, Gate
from tests.reliability.in_process import InProcess
from tests.reliability.store_model import Code, Said, StoreModel
from tests.reliability.tab import Frame, Tab, articles
from tests.storage.examples import a_turn, an_end

ABSENT = "absent"
LENGTH = 60
MOST_STEPS = 14
NAMING = {
    "send": "parent_id",
    "count": "parent_id",
    "watch": "head_id",
    **dict.fromkeys(
        ["edit", "regenerate", "continue", "switch", "delete_branch", "restore_branch"], "message_id"
    ),
}
"""The commands that name a message and its conversation."""

TEXT = st.sampled_from(["ash", "birch", "cedar"])
ANY = st.integers(0, 30)
TAB = st.integers(0, 1)
RARELY = st.integers(0, 5).map(lambda n: n == 0)


def said(question: str) -> str:
    """The double's whole reply."""
    return (f"{question} " * LENGTH)[:LENGTH].strip()


def reply_to(prompt: str) -> str:
    return said(prompt.rpartition("user\n")[2].strip())


class ProtocolModel(RuleBasedStateMachine):
    blank: Path
    """A data folder of the newest schema with nothing in it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        shutil.copytree(self.blank, self.folder.name, dirs_exist_ok=True)
        self.model = StoreModel()
        self.gate = Gate()
        self.steps_left: int | None = None  # while the double is held back
        self.stopping: set[str] = set()
        self.queued: set[str] = set()
        self.given: list[tuple[str, Frame, Frame]] = []
        self.numbers = iter(range(10_000))
        self.start()
        self.others = self.what_another_person_has()

    def start(self) -> None:
        self.app = InProcess(Path(self.folder.name), reply_to, pace=self.gate)
        self.reader = self.app.ready_client()
        self.tabs = [Tab(self.app.client()) for _ in range(2)]

    def teardown(self) -> None:
        self.app.close(self.gate.open)
        self.folder.cleanup()

    def what_another_person_has(self) -> StartedTurn:
        """A conversation in the same database, which nobody here may see."""
        with self.app.database.write() as session:
            session.add(Person(id="other", name="Another", created_at=utc_now()))
        kept = Conversations(self.app.database)
        started = kept.begin_turn(a_turn(text="secret", title="secret", person_id="other"))
        kept.finish(started.reply.id, an_end("secret too"))
        return replace(started, reply=kept.message(started.reply.id))

    # choosing

    def a_message(self, which: int) -> Said:
        everything = sorted(self.model.messages.values(), key=lambda m: (m.at, not m.mine))
        absent = Said(ABSENT, ABSENT, None, True, "", 0)
        return everything[-1 - which % len(everything)] if everything and which < 30 else absent

    def a_chat(self, which: int) -> str:
        chats = sorted(self.model.chats.values(), key=lambda chat: chat.at)
        return chats[-1 - which % len(chats)].id if chats and which < 30 else ABSENT

    def place(self, which: int, elsewhere: bool) -> tuple[str, str]:
        """A conversation and a message; elsewhere: one that is in another, or in none."""
        message = self.a_message(which)
        others = [chat for chat in self.model.chats if chat != message.chat]
        return (others[0] if others else ABSENT) if elsewhere else message.chat, message.id

    def tab_at(self, tab: int, chat_id: str | None) -> Tab:
        """The tab, looking at that conversation where it can."""
        chosen = self.tabs[tab]
        if chat_id is None:
            chosen = self.tabs[tab] = Tab(self.app.client())
        elif chosen.conversation_id != chat_id and self.model.chat(chat_id):
            chosen.open(chat_id)
        return chosen

    @initialize(text=TEXT)
    def something_is_there(self, text: str) -> None:
        self.begin_a_conversation(0, text)

    # commands that begin a reply

    def begin(self, tab: Tab, kind: str, refused: Code | None, **fields: Any) -> Frame | None:
        """Give a command; its `accepted` where it is to be taken."""
        command = {"id": f"c{next(self.numbers)}", **fields}
        answer = tab.answer(kind, **command)
        if refused is not None:
            assert (answer["type"], answer.get("code")) == ("error", refused)
            return None
        assert answer["type"] == "accepted", answer
        self.given.append((kind, command, answer))
        return answer

    def take_turn(self, answer: Frame, text: str, parent: str | None) -> None:
        now, chat = next(self.model.moments), answer["conversation_id"]
        user = Said(answer["user_id"], chat, parent, True, text, now, answer["ref"])
        self.model.turn(user, answer["reply_id"], text)
        self.let_it_end(answer["reply_id"])

    def let_it_end(self, reply_id: str) -> None:
        if self.steps_left is None:
            self.wait_until_over([reply_id])
        elif len(self.model.writing) == 1:
            assert self.gate.is_used_up(WAIT_S)
        else:
            self.queued.add(reply_id)

    def stopped(self, replies: set[str]) -> None:
        """Those that wait end at once, the others with the next step."""
        self.stopping |= replies
        self.wait_until_over(replies & self.queued)

    @rule(tab=TAB, text=TEXT)
    def talk(self, tab: int, text: str) -> None:
        self.begin_a_conversation(tab, text)

    def begin_a_conversation(self, tab: int, text: str) -> None:
        answer = self.begin(self.tab_at(tab, None), "send", None, text=text)
        assert answer is not None
        self.take_turn(answer, text, None)

    @rule(tab=TAB, which=ANY, text=TEXT, elsewhere=RARELY, first=RARELY)
    def send(self, tab: int, which: int, text: str, elsewhere: bool, first: bool) -> None:
        chat, parent = self.place(which, elsewhere)
        place = {"conversation_id": chat, "parent_id": None if first else parent}
        refused = self.model.refuses_send(**{"chat_id": chat, "parent": place["parent_id"]})
        answer = self.begin(self.tab_at(tab, chat), "send", refused, text=text, **place)
        if answer:
            self.take_turn(answer, text, place["parent_id"])

    @rule(tab=TAB, which=ANY, text=TEXT, elsewhere=RARELY)
    def edit(self, tab: int, which: int, text: str, elsewhere: bool) -> None:
        chat, message = self.place(which, elsewhere)
        refused = self.model.refuses_edit(chat, message)
        place = {"conversation_id": chat, "message_id": message}
        answer = self.begin(self.tab_at(tab, chat), "edit", refused, text=text, **place)
        if answer:
            self.take_turn(answer, text, self.model.messages[message].parent)

    @rule(tab=TAB, which=ANY, elsewhere=RARELY)
    def regenerate(self, tab: int, which: int, elsewhere: bool) -> None:
        chat, message = self.place(which, elsewhere)
        refused = self.model.refuses_regenerate(chat, message)
        place = {"conversation_id": chat, "message_id": message}
        answer = self.begin(self.tab_at(tab, chat), "regenerate", refused, **place)
        if answer:
            asked = self.model.messages[message]
            question = asked.id if asked.mine else asked.parent
            now = next(self.model.moments)
            self.model.reply(Said(answer["reply_id"], chat, question, False, "", now, answer["ref"]))
            self.let_it_end(answer["reply_id"])

    @rule(tab=TAB, which=ANY, elsewhere=RARELY)
    def go_on(self, tab: int, which: int, elsewhere: bool) -> None:
        chat, message = self.place(which, elsewhere)
        refused = self.model.refuses_continue(chat, message)
        if refused is None and LENGTH - len(self.model.messages[message].text) <= MOST_STEPS:
            return  # it might end while the double is held back
        place = {"conversation_id": chat, "message_id": message}
        answer = self.begin(self.tab_at(tab, chat), "continue", refused, **place)
        if answer:
            self.model.go_on(message, next(self.model.moments))
            self.model.continued[answer["ref"]] = message
            self.let_it_end(message)

    # the same command once more

    @rule(tab=TAB, which=ANY)
    def repeat(self, tab: int, which: int) -> None:
        if not self.given:
            return
        kind, command, first = self.given[-1 - which % len(self.given)]
        expected = self.model.answers_repeated(kind, command, first)
        if expected == "anew":
            return
        again = self.tab_at(tab, first["conversation_id"]).answer(kind, **command)
        if expected is not None:
            assert (again["type"], again.get("code")) == ("error", expected)
            return
        same = ("type", "ref", "conversation_id", "user_id", "reply_id", "parent_id")
        assert [again[name] for name in same] == [first[name] for name in same]

    @rule(tab=TAB, which=ANY, text=TEXT)
    def use_an_id_for_something_else(self, tab: int, which: int, text: str) -> None:
        if not self.given:
            return
        kind, command, first = self.given[-1 - which % len(self.given)]
        if self.model.answers_repeated(kind, command, first) is not None:
            return
        other = {"id": command["id"], "text": f"not {text}"}
        answer = self.tabs[tab].answer("send", **other)
        assert (answer["type"], answer["code"]) == ("error", "conflict")

    # looking elsewhere, deleting, bringing back

    def move(self, tab: int, kind: str, place: tuple[str, str], refused: Code | None) -> bool:
        chat, message = place
        answer = self.tab_at(tab, chat).answer(kind, conversation_id=chat, message_id=message)
        expected = "switched" if refused is None else "error"
        assert (answer["type"], answer.get("code")) == (expected, refused)
        return refused is None

    @rule(tab=TAB, which=ANY, elsewhere=RARELY)
    def switch(self, tab: int, which: int, elsewhere: bool) -> None:
        place = self.place(which, elsewhere)
        if self.move(tab, "switch", place, None if self.model.live(*place) else "not_found"):
            self.model.switch(place[1])

    @rule(tab=TAB, which=ANY, elsewhere=RARELY)
    def delete_branch(self, tab: int, which: int, elsewhere: bool) -> None:
        place = self.place(which, elsewhere)
        if self.move(tab, "delete_branch", place, self.model.refuses_delete(*place)):
            self.model.delete_branch(place[1])

    @rule(tab=TAB, which=ANY, elsewhere=RARELY)
    def restore_branch(self, tab: int, which: int, elsewhere: bool) -> None:
        place = self.place(which, elsewhere)
        if self.move(tab, "restore_branch", place, self.model.refuses_restore(*place)):
            self.model.restore_branch(place[1])

    @rule(kind=st.sampled_from(sorted(NAMING)), of_the_question=st.booleans(), text=TEXT)
    def name_what_is_anothers(self, kind: str, of_the_question: bool, text: str) -> None:
        """It is answered as what is not there at all, to the letter."""
        message = self.others.user if of_the_question else self.others.reply
        answers = []
        for chat_id, message_id in [(message.conversation_id, message.id), ("a" * 32, "b" * 32)]:
            named = {"conversation_id": chat_id, NAMING[kind]: message_id}
            fields = {"text": text, **named} if kind in ("send", "edit", "count") else named
            answer = json.dumps(self.ask(kind, fields))
            answers.append(answer.replace(chat_id, "C").replace(message_id, "M"))
        assert answers[0] == answers[1]
        assert "not_found" in answers[0]

    @rule(what=st.sampled_from(["rename", "pin", "archive", "delete", "restore"]))
    def move_what_is_anothers(self, what: str) -> None:
        body = {"rename": {"title": "mine"}, "pin": {"on": True}, "archive": {"on": True}}.get(what)
        chats = (self.others.conversation.id, "a" * 32)
        answers = [self.app.post(f"/api/conversations/{chat}/{what}", body) for chat in chats]
        assert answers[0].status_code == answers[1].status_code
        assert answers[0].text.replace(chats[0], "C") == answers[1].text.replace(chats[1], "C")

    def ask(self, kind: str, fields: Frame) -> Frame:
        """The answer to a command without its own id."""
        ref = self.reader.send(kind, **fields)
        while (answer := self.reader.receive()).get("ref") != ref:
            pass
        return answer | {"ref": None}

    # the list

    def post(self, chat: str, what: str, body: Any = None) -> bool:
        """Do something with a conversation; whether it was there."""
        status = self.app.post(f"/api/conversations/{chat}/{what}", body).status_code
        assert status in (204, 404)
        return status == 204

    @rule(which=ANY, title=TEXT)
    def rename(self, which: int, title: str) -> None:
        chat = self.a_chat(which)
        found = self.model.chat(chat)
        assert self.post(chat, "rename", {"title": title}) == (found is not None)
        if found:
            found.title = title

    @rule(which=ANY, on=st.booleans())
    def pin(self, which: int, on: bool) -> None:
        chat = self.a_chat(which)
        found = self.model.chat(chat)
        assert self.post(chat, "pin", {"on": on}) == (found is not None)
        if found:
            found.pinned = on

    @rule(which=ANY, on=st.booleans())
    def archive(self, which: int, on: bool) -> None:
        chat = self.a_chat(which)
        found = self.model.chat(chat)
        assert self.post(chat, "archive", {"on": on}) == (found is not None)
        if found:
            found.archived = on

    @rule(which=ANY)
    def delete(self, which: int) -> None:
        chat = self.a_chat(which)
        assert self.post(chat, "delete")  # gone already: what was asked for is so
        if chat in self.model.chats:
            self.model.chats[chat].deleted = True
        self.stopped({id for id, place in self.model.writing.items() if place == chat})

    @rule(which=ANY)
    def restore(self, which: int) -> None:
        chat = self.a_chat(which)
        assert self.post(chat, "restore") == (chat in self.model.chats)
        if chat in self.model.chats:
            self.model.chats[chat].deleted = False

    @rule(rarely=RARELY)
    def a_minute_passes(self, rarely: bool) -> None:
        if not rarely:
            return
        self.app.services.trash.empty(utc_now())
        self.model.purge()

    # time

    @rule()
    def hold_back(self) -> None:
        if self.steps_left is None:
            self.gate.shut()
            self.steps_left = MOST_STEPS

    @rule(steps=st.integers(1, 6))
    def let_it_write(self, steps: int) -> None:
        if self.steps_left is None or self.steps_left < steps or not self.model.writing:
            return
        self.steps_left -= steps
        self.gate.let(steps)
        self.queued.clear()
        self.wait_until_over(self.stopping & self.model.writing.keys())
        while self.model.writing and not self.gate.is_used_up(WAIT_S):
            raise AssertionError("the double takes no more steps")
        self.gate.shut()

    @rule()
    def let_all_end(self) -> None:
        self.gate.open()
        self.steps_left = None
        self.queued.clear()
        self.wait_until_over(list(self.model.writing))

    @rule(tab=TAB, which=ANY)
    def stop(self, tab: int, which: int) -> None:
        message = self.a_message(which)
        self.tabs[tab].client.send("stop", message_id=message.id)
        self.tabs[tab].settle()
        self.stopped({message.id} & self.model.writing.keys())

    @rule(tab=TAB)
    def lose_the_connection(self, tab: int) -> None:
        self.tabs[tab].client.close()
        self.tabs[tab].reconnect(self.app.client())

    @rule(rarely=RARELY)
    def restart(self, rarely: bool) -> None:
        if not rarely:
            return
        self.app.close(self.gate.open)
        self.steps_left = None
        self.queued.clear()
        tabs = self.tabs
        self.start()
        self.wait_until_over(list(self.model.writing))
        for place, tab in enumerate(tabs):
            tab.reconnect(self.tabs[place].client)
        self.tabs = tabs

    # what became of replies

    def wait_until_over(self, replies: Any) -> None:
        """Wait until these replies have ended, and note how."""
        deadline = time.monotonic() + WAIT_S
        for reply_id in list(replies):
            while self.app.services.generations.get(reply_id) is not None:
                assert time.monotonic() < deadline, f"{reply_id} does not end"
                time.sleep(0.0002)
            del self.model.writing[reply_id]
            if reply_id in self.model.messages:
                self.note_end(self.model.messages[reply_id], reply_id in self.stopping)
            self.stopping.discard(reply_id)

    def note_end(self, reply: Said, stopped: bool) -> None:
        """How far it came is the worker's affair; that it is what the double says is not."""
        with self.app.database.read() as session:
            row = session.get(Message, reply.id)
            assert row is not None
            text, reason, status = row.text, row.finish_reason, row.status
        whole = said(self.model.messages[reply.parent or ""].text)
        assert whole.startswith(text)
        assert text.startswith(reply.text)
        assert (status, reason) in [("done", "stop"), ("done", "abort"), ("interrupted", None)]
        assert text == whole or reason != "stop"
        assert stopped or reason != "abort"
        reply.text, reply.reason = text, reason
        reply.running, reply.interrupted = False, status == "interrupted"

    # and after every step

    @invariant()
    def the_database_holds_the_model(self) -> None:
        with self.app.database.read() as session:
            chats = session.execute(
                select(
                    Conversation.id,
                    Conversation.title,
                    Conversation.head_id,
                    Conversation.pinned,
                    Conversation.archived,
                    Conversation.deleted_at.is_not(None),
                )
                .where(Conversation.person_id == OWNER)
                .order_by(Conversation.updated_at)
            ).all()
            messages = session.execute(
                select(
                    Message.id,
                    Message.conversation_id,
                    Message.parent_id,
                    Message.role == "user",
                    Message.client_id,
                    Message.text,
                    Message.status,
                    Message.finish_reason,
                    Message.deleted_at.is_not(None),
                ).where(Message.conversation_id != self.others.conversation.id)
            ).all()
            others = session.get(Conversation, self.others.conversation.id)
            assert others is not None
            assert others.record() == self.others.conversation
            for message in (self.others.user, self.others.reply):
                row = session.get(Message, message.id)
                assert row is not None
                assert row.record() == message
        expected = sorted(self.model.chats.values(), key=lambda chat: chat.at)
        assert [tuple(row) for row in chats] == [
            (c.id, c.title, c.head, c.pinned, c.archived, c.deleted) for c in expected
        ]
        kept = self.model.messages
        assert {row[0]: tuple(row[1:5]) for row in messages} == {
            m.id: (m.chat, m.parent, m.mine, m.client_id) for m in kept.values()
        }
        for row in messages:
            message = kept[row[0]]
            assert row[8] == message.deleted
            if message.running:
                assert row[6] in ("pending", "running")
            else:
                assert (row[5], row[6], row[7]) == (message.text, message.status, message.reason)

    @invariant()
    def a_fresh_snapshot_and_both_tabs_show_the_model(self) -> None:
        for tab in self.tabs:
            tab.settle()
            for article in tab.shown:
                if article.running and article.id not in self.model.writing and not tab.deleted:
                    tab.until_finished(article.id)
            if tab.conversation_id is not None and self.model.chat(tab.conversation_id):
                assert not tab.deleted
                assert self.as_told(tab.shown) == self.as_kept(tab.conversation_id)
        for chat in {tab.conversation_id for tab in self.tabs} - {None}:
            ref = self.reader.send("watch", conversation_id=chat, head_id=ABSENT)
            while (answer := self.reader.receive()).get("ref") != ref:
                pass
            if self.model.chat(chat) is None:
                assert answer["code"] == "not_found"
            else:
                assert self.as_told(articles(answer["html"])) == self.as_kept(chat or "")

    def as_kept(self, chat_id: str) -> list[tuple[str, str, str]]:
        return [(m.id, m.status, "" if m.running else m.text) for m in self.model.shown(chat_id)]

    def as_told(self, shown: Any) -> list[tuple[str, str, str]]:
        return [
            (a.id, "running" if a.running else a.status, "" if a.running else a.text.strip()) for a in shown
        ]


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blank")
    Database.open(folder).close()
    return folder


@pytest.mark.row(5)
def test_the_server_is_what_the_model_is(blank: Path, long: bool) -> None:
    machine = type("Machine", (ProtocolModel,), {"blank": blank})
    figures = settings(max_examples=4_000 if long else 40, stateful_step_count=30 if long else 12)
    run_state_machine_as_test(machine, settings=figures)
