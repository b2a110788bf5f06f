"""One server, two tabs and plain dictionaries, for random histories of the protocol: how one acts on them,
and that they say the same after every step.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant
from sqlalchemy import select

from storage.conversations import Conversations, utc_now
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


def said(question: str) -> str:
    """The double's whole reply."""
    return (f"{question} " * LENGTH)[:LENGTH].strip()


def reply_to(prompt: str) -> str:
    return said(prompt.rpartition("user\n")[2].strip())


class ProtocolWorld(RuleBasedStateMachine):
    """A server with two tabs, and what there should be. The rules of a subclass say what may happen."""

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

    def ask(self, kind: str, fields: Frame) -> Frame:
        """The answer to a command without its own id."""
        ref = self.reader.send(kind, **fields)
        while (answer := self.reader.receive()).get("ref") != ref:
            pass
        return answer | {"ref": None}

    def post(self, chat: str, what: str, body: Any = None) -> bool:
        """Do something with a conversation; whether it was there."""
        status = self.app.post(f"/api/conversations/{chat}/{what}", body).status_code
        assert status in (204, 404)
        return status == 204

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
            if tab.conversation_id is None:
                continue
            assert tab.deleted == (self.model.chat(tab.conversation_id) is None)
            if not tab.deleted:
                assert self.as_told(tab.shown) == self.as_kept(tab.conversation_id)
        for chat in {tab.conversation_id for tab in self.tabs} - {None}:
            ref = self.reader.send("watch", conversation_id=chat, head_id=ABSENT)
            while (answer := self.reader.receive()).get("ref") != ref:
                pass
            if chat not in self.model.chats:
                assert answer["code"] == "not_found"
            elif self.model.chat(chat) is None:
                assert (answer["type"], answer["deleted"]) == ("conversation_deleted", True)
            else:
                assert self.as_told(articles(answer["html"])) == self.as_kept(chat or "")

    def as_kept(self, chat_id: str) -> list[tuple[str, str, str]]:
        return [(m.id, m.status, "" if m.running else m.text.strip()) for m in self.model.shown(chat_id)]

    def as_told(self, shown: Any) -> list[tuple[str, str, str]]:
        return [
            (a.id, "running" if a.running else a.status, "" if a.running else a.text.strip()) for a in shown
        ]
