"""The same command twice, in every way that it can come twice: one row, one generation, the same answer."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import pytest
from sqlalchemy import func, select

from storage.tables import Conversation, Message
from tests.inference.doubles import ScriptedBackend, TokenKV
from tests.web.client import Client
from tests.web.serving import Served

Serve = Callable[..., Served]
Frame = dict[str, Any]

TIMES = 10
"""So often each command comes."""
SHORT = {"system_prompt": "Be brief.", "params": {"max_tokens": 3}}
"""The reply reaches its limit, and can go on."""


class CountingBackend(ScriptedBackend):
    """Counts the sequences that were begun."""

    begun = 0

    def create_kv(self, tokens: int = 0) -> TokenKV:
        self.begun += 1
        return super().create_kv(tokens)


class Sender:
    """Gives one command ten times, and sees that every tab that gave it is told of the reply to its end."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.tabs = [served.ready_client(), served.ready_client()]
        self.sent = 0

    def at_once(self, kind: str, command: Frame) -> list[Frame]:
        """One tab, that waits for no answer."""
        for _ in range(TIMES):
            self.give(self.tabs[0], kind, command)
        return self.answers(self.tabs[0], command, TIMES)

    def from_two_tabs(self, kind: str, command: Frame) -> list[Frame]:
        for _ in range(TIMES // 2):
            for tab in self.tabs:
                self.give(tab, kind, command)
        return [answer for tab in self.tabs for answer in self.answers(tab, command, TIMES // 2)]

    def without_an_answer(self, kind: str, command: Frame) -> list[Frame]:
        """The connection is lost before the answer comes: the page comes back and gives it again."""
        for _ in range(TIMES - 1):
            lost = self.served.client()
            self.give(lost, kind, command)
            lost.connection.socket.shutdown(socket.SHUT_RDWR)
        self.give(self.tabs[1], kind, command)
        return self.answers(self.tabs[1], command, 1)

    def by_post_too(self, kind: str, command: Frame) -> list[Frame]:
        """As a text that may be too long for a frame, and over the socket."""
        if kind not in ("send", "edit"):
            return self.from_two_tabs(kind, command)
        with ThreadPoolExecutor(TIMES) as pool:
            posts = [pool.submit(self.post, kind, command) for _ in range(TIMES - 1)]
            self.give(self.tabs[0], kind, command)
            posted = [post.result() for post in posts]
        self.sent += len(posted)
        return posted + self.answers(self.tabs[0], command, 1)

    def post(self, kind: str, command: Frame) -> Frame:
        answer: Frame = self.served.post("/messages", {"type": kind, **command}).json()
        return answer

    def give(self, client: Client, kind: str, command: Frame) -> None:
        client.send(kind, **command)
        self.sent += 1

    def answers(self, client: Client, command: Frame, times: int) -> list[Frame]:
        answers = [client.wait_for("accepted", ref=command["id"]) for _ in range(times)]
        reply_id = answers[0]["reply_id"]
        ended = any(f["type"] == "finished" and f["message_id"] == reply_id for f in client.frames)
        if not ended and all('data-status="done"' not in answer["reply_html"] for answer in answers):
            client.wait_for("finished", message_id=reply_id)
        client.settle()
        client.frames.clear()
        return answers


@pytest.mark.row(14)
def test_a_command_that_comes_many_times_is_carried_out_once(serve: Serve, long: bool) -> None:
    served = serve(lambda prompt: "warm floors " * 9, kind=CountingBackend, window=2_048)
    sender = Sender(served)
    counting = served.backends[0]
    assert isinstance(counting, CountingBackend)
    before, rounds = counting.begun, 250 if long else 25
    ways = cycle([sender.at_once, sender.from_two_tabs, sender.without_an_answer, sender.by_post_too])
    for number in range(rounds):
        next(ways)  # each kind of command in each way
        asked = {"text": "hello", "opening": SHORT}
        first = same(next(ways)("send", {"id": f"send{number}", **asked}))
        place = {"conversation_id": first["conversation_id"], "message_id": first["reply_id"]}
        same(next(ways)("continue", {"id": f"continue{number}", **place}))
        same(next(ways)("regenerate", {"id": f"regenerate{number}", **place}))
        edited = {"id": f"edit{number}", "text": "and now?", **place, "message_id": first["user_id"]}
        same(next(ways)("edit", edited))
        again = sender.tabs[1]
        sender.give(again, "send", {"id": f"send{number}", **asked})  # long after
        assert same([again.wait_for("accepted", ref=f"send{number}")]) == first
    assert sender.sent >= 1_000
    assert counting.begun - before == 4 * rounds
    with served.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Conversation)) == rounds
        assert session.scalar(select(func.count()).select_from(Message)) == 5 * rounds


def same(answers: list[Frame]) -> Frame:
    """What all of them say was made."""
    made = [{name: answer[name] for name in ("conversation_id", "user_id", "reply_id")} for answer in answers]
    assert all(each == made[0] for each in made)
    return made[0]
