"""The protocol against plain dictionaries, through random histories of two tabs.

After every step the database holds what the model holds, a fresh snapshot shows it, and so do both tabs,
which only applied what they were told. `tests/storage/test_model.py` is the other half of row 5.

The app runs in this process, over ASGI: a real socket would tell nothing more about commands, and a server
that uvicorn starts and ends takes so long that few histories could have a restart in them. What sockets add
is tested on real ones by the other rows.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from storage.conversations import utc_now
from storage.database import Database
from tests.reliability.gate import WAIT_S
from tests.reliability.protocol_world import LENGTH, ProtocolWorld
from tests.reliability.store_model import Code, Said

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


class ProtocolModel(ProtocolWorld):
    @initialize(text=TEXT)
    def something_is_there(self, text: str) -> None:
        self.begin_a_conversation(0, text)

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

    # the list

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
