"""Row 1: the server is killed at any moment, again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from tests.reliability.disk import Disk, build_library
from tests.reliability.household import Acknowledged, Person, Row, person_at, read_rows
from tests.reliability.servers import ServerProcess, Servers, Task, servers
from web.bench_pages import get

HOUSES = 3
CHATS = 2


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers(build_library(tmp_path_factory.mktemp("library"))) as running:
        yield running


@dataclass
class Chat:
    """One chat: what was asked last, and where it stands."""

    ref: str = ""
    command: dict[str, str | None] = field(default_factory=dict)


class House:
    """A data folder whose server never ends in order, and the people who chat with it."""

    def __init__(self, started: Servers, folder: Path, seed: int) -> None:
        folder.mkdir()
        self._folder = folder
        self._started = started
        self._random = random.Random(seed)
        self._told = Acknowledged()
        self._chats = [Chat() for _ in range(CHATS)]
        self.continued = self.repeated = 0

    def live_until_killed(self) -> None:
        """Start, find everything there, go on where it broke off, and be killed at some moment."""
        with Disk(self._folder / "control") as disk, ExitStack() as stack:
            server = self._start(disk)
            people = [stack.enter_context(person_at(server.url)) for _ in self._chats]
            for person, chat in zip(people, self._chats, strict=True):
                person.wait_for("status", phase="ready")
                self._go_on(person, chat)
            self._wait_a_while(people[0])
            server.kill()
            for person in people:
                list(person.until_cut_off())
                self._told.note(person.frames)

    def live_in_peace(self) -> None:
        """Everything that broke off goes on, and ends."""
        with Disk(self._folder / "control") as disk:
            server = self._start(disk)
            for chat in self._chats:
                with person_at(server.url) as person:
                    self._finish(person, chat)
            self._told.check(read_rows(self._folder))
            server.end()

    def _start(self, disk: Disk) -> ServerProcess:
        task = Task(str(self._folder), str(disk.file), step_s=self._random.choice((0.0, 0.004, 0.008)))
        server = self._started.start(task)
        assert get(server.url)
        self._told.check(read_rows(self._folder))
        return server

    def _go_on(self, person: Person, chat: Chat) -> None:
        """Repeat what was not answered; let go on what broke off; else ask something."""
        repeats = bool(chat.ref) and chat.ref not in self._told.accepted
        if repeats:
            self.repeated += 1
        else:
            chat.ref, chat.command = uuid4().hex, self._next_command(chat)
        self._told.asked[chat.ref] = chat.command.get("text")
        person.send(id=chat.ref, kind=str(chat.command["kind"]), **_fields(chat.command))

    def _next_command(self, chat: Chat) -> dict[str, str | None]:
        before = self._told.accepted.get(chat.ref)
        row = self._row(chat)
        if before is not None and row.status == "interrupted":
            self.continued += bool(row.text)
            kind = "continue" if row.text else "regenerate"  # as the page offers it
            return {"kind": kind, "conversation_id": before["conversation_id"], "message_id": row.id}
        goes_on = before is not None and self._random.random() < 0.7
        return {
            "kind": "send",
            "text": f"Question {uuid4().hex}",
            "conversation_id": before["conversation_id"] if goes_on else None,
            "parent_id": row.id if goes_on else None,
        }

    def _row(self, chat: Chat) -> Row:
        """The chat's last reply as it is stored."""
        accepted = self._told.accepted.get(chat.ref)
        rows = {row.id: row for row in read_rows(self._folder)} if accepted else {}
        return rows[accepted["reply_id"]] if accepted else Row("", None, None, "", "", "")

    def _finish(self, person: Person, chat: Chat) -> None:
        person.wait_for("status", phase="ready")
        while self._row(chat).status != "done":
            self._go_on(person, chat)
            accepted = person.wait_for("accepted", ref=chat.ref)
            person.wait_for("finished", message_id=accepted["reply_id"], finish_reason="stop")
            self._told.note(person.frames)

    def _wait_a_while(self, person: Person) -> None:
        """From the very beginning until after the end of a reply."""
        for _ in range(self._random.choice((0, 1, 2, 3, 5, 8, 13, 20, 1_000))):
            frame = person.receive()
            if frame["type"] == "finished" or "aria-busy" not in frame.get("reply_html", "aria-busy"):
                break  # all of it was there already, where a command was repeated
        time.sleep(self._random.random() * self._random.choice((0, 0.01, 0.1)))


def _fields(command: dict[str, str | None]) -> dict[str, str | None]:
    return {name: value for name, value in command.items() if name != "kind"}


@pytest.mark.row(1)
def test_a_killed_server_loses_and_doubles_nothing_and_every_reply_goes_on(
    started: Servers, tmp_path: Path, long: bool
) -> None:
    houses = [House(started, tmp_path / f"house-{number}", number) for number in range(HOUSES)]
    kills = 2_000 if long else 30

    def live(house: House) -> None:
        for _ in range(-(-kills // HOUSES)):
            house.live_until_killed()
        house.live_in_peace()

    with ThreadPoolExecutor(HOUSES) as pool:
        list(pool.map(live, houses))
    assert sum(house.continued for house in houses) > kills / 10
    assert sum(house.repeated for house in houses) > 0
