"""Rows 3 and 4: a write or a sync fails, or the disk is full, under a real server process."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from storage.files import FILE_NAME
from tests.reliability.disk import Disk, build_library
from tests.reliability.household import Acknowledged, Person, Row, person_at, read_rows
from tests.reliability.servers import ServerProcess, Servers, Task, scripted, servers
from tests.web.client import WAIT_S
from web.bench_pages import get

HOMES = 2
"""At a time."""
FAULTS = ((errno.EIO, False), (errno.ENOSPC, True), (errno.EIO, True), (errno.ENOSPC, False))
"""Which error, and whether it lasts until the disk is mended."""
TIMES = 20
"""That the disk gets full."""
ROOM = 150_000
"""Bytes that a message and its reply need about."""
LONG_ONE = "Who builds it?"
"""Its reply is long enough for something to happen meanwhile."""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers(build_library(tmp_path_factory.mktemp("library"))) as running:
        yield running


class Home:
    """A server on a disk that breaks and is mended again and again, and somebody who goes on chatting."""

    def __init__(self, server: ServerProcess, person: Person, disk: Disk, folder: Path) -> None:
        self.disk = disk
        self.refused = self.waited = 0
        self._server = server
        self._person = person
        self._folder = folder
        self._told = Acknowledged()
        self._place: dict[str, str] = {}
        self._unanswered: str | None = None
        self._unfinished: str | None = None
        self._old = "/"
        person.wait_for("status", phase="ready")
        self.chat()

    def chat(self) -> None:
        """Say something, or what was refused before, and be answered."""
        ref, self._unanswered = self._unanswered or self._new_question(), None
        accepted = self._person.wait_for("accepted", ref=self._ask(ref))
        self._person.wait_for("finished", message_id=accepted["reply_id"], finish_reason="stop")
        self._goes_on_after(accepted)
        self._old = f"/c/{accepted['conversation_id']}"

    def chat_until_it_breaks(self, *, lasts: bool) -> None:
        """Until the disk has failed, and whoever has to be told was. What is only a cache may fail before."""
        self._place = {}
        while lasts or not self.disk.failed:
            ref = self._ask(self._new_question())
            answer = self._next("accepted", "error", ref=ref)
            if answer["type"] == "error":
                assert answer["code"] == "storage", answer
                assert "nothing was saved" in answer["message"]
                self._unanswered = ref
                self.refused += 1
                return
            self._goes_on_after(answer)
            if not self._ends(answer["reply_id"], lasts=lasts):
                self._unfinished = answer["reply_id"]
                self.waited += 1
                return

    def read(self) -> None:
        """What was said before can be read."""
        assert self._server.poll() is None, self._server.output
        assert get(self._server.url)
        assert "Question" in get(self._server.url + self._old).decode()

    def be_refused(self) -> None:
        """A page that is opened now is told at once; nothing more is taken, and all can be read."""
        with person_at(self._server.url) as newcomer:
            while "The disk is full" not in newcomer.wait_for("status")["unsaved"]:
                pass
            while True:  # what is shorter than the write that failed may find room where that had begun
                ref = self._new_question()
                newcomer.send("send", id=ref, text=self._told.asked[ref])
                answer = self._next("accepted", "error", by=newcomer, ref=ref)
                if answer["type"] == "error":
                    break
                self._ends(answer["reply_id"], lasts=True, by=newcomer)
            assert answer["code"] == "storage"
            assert answer["message"] == f"The disk that holds {FILE_NAME} is full: nothing was saved."
            self._told.note(newcomer.frames)
        assert "The disk is full" in get(f"{self._server.url}/status").decode()
        self.read()

    def mend(self) -> None:
        """From now on the disk works, and what had waited is saved."""
        self.disk.work()
        if self._unfinished is not None:
            self._person.wait_for("finished", message_id=self._unfinished, finish_reason="stop")
            self._unfinished = None
        if self._is_in_trouble():
            self._person.wait_for("status", unsaved="")

    def check(self) -> None:
        """Everything acknowledged is there once and to its end, and nothing else."""
        self._told.note(self._person.frames)
        self._person.frames.clear()
        rows = self._rows_at_rest()
        self._told.check(rows)
        assert all(row.status == "done" for row in rows)

    def _rows_at_rest(self) -> list[Row]:
        """All messages, once the newcomers' replies have ended too."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            rows = read_rows(self._folder)
            if not any(row.status in ("pending", "running") for row in rows):
                return rows
            time.sleep(0.02)
        raise AssertionError("replies are still being written")

    def _new_question(self) -> str:
        ref = uuid4().hex
        self._told.asked[ref] = f"Question {ref}"
        return ref

    def _ask(self, ref: str) -> str:
        return self._person.send("send", id=ref, text=self._told.asked[ref], **self._place)

    def _goes_on_after(self, accepted: dict[str, Any]) -> None:
        self._place = {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}

    def _next(self, *kinds: str, by: Person | None = None, **fields: str) -> dict[str, Any]:
        while True:
            frame = (by or self._person).receive()
            if frame["type"] in kinds and all(frame.get(name) == value for name, value in fields.items()):
                return frame

    def _ends(self, reply_id: str, *, lasts: bool, by: Person | None = None) -> bool:
        """Whether a reply ends. Where it waits in memory, the page says so."""
        while True:
            frame = self._next("finished", "status", by=by)
            if frame["type"] == "finished":
                assert frame["message_id"] == reply_id
                return True
            if lasts and "in memory alone" in frame["unsaved"]:
                return False

    def _is_in_trouble(self) -> bool:
        said = [frame["unsaved"] for frame in self._person.frames if frame["type"] == "status"]
        return bool(said and said[-1])


@contextmanager
def at_home(started: Servers, folder: Path, again_s: float = 0.05) -> Iterator[Home]:
    """A server and somebody who has said something already."""
    folder.mkdir()
    with Disk(folder / "control") as disk:
        server = started.start(Task(str(folder), str(disk.file), step_s=0.0, again_s=again_s))
        get(server.url)
        with person_at(server.url) as person:
            yield Home(server, person, disk, folder)
        server.end()


@pytest.mark.row(3)
def test_a_write_or_sync_that_fails_is_told_and_nothing_is_lost(
    started: Servers, tmp_path: Path, long: bool
) -> None:
    numbers = list(enumerate(range(1, 301) if long else range(1, 301, 10)))

    def live(mine: Sequence[tuple[int, int]]) -> tuple[int, int]:
        with at_home(started, tmp_path / f"home-{mine[0][0]}") as home:
            for place, number in mine:
                error, lasts = FAULTS[place % len(FAULTS)]
                home.disk.fail(number, error=error, lasts=lasts)
                home.chat_until_it_breaks(lasts=lasts)
                home.read()
                home.mend()
                home.chat()
                home.check()
            return home.refused, home.waited

    with ThreadPoolExecutor(HOMES) as pool:
        refused, waited = zip(*pool.map(live, [numbers[::2], numbers[1::2]]), strict=True)
    assert sum(refused) > 0
    assert sum(waited) > 0


@pytest.mark.row(4)
def test_on_a_full_disk_everything_can_be_read_and_later_everything_is_saved(
    started: Servers, tmp_path: Path
) -> None:
    # Each writes less than 4 MB: beyond that SQLite's log begins anew, and needs no room for long.
    def live(number: int) -> tuple[int, int]:
        chance = random.Random(number)
        with at_home(started, tmp_path / f"home-{number}") as home:
            for _ in range(TIMES // 4):
                home.disk.fill(chance.randrange(ROOM))
                home.chat_until_it_breaks(lasts=True)
                home.be_refused()
                home.mend()
                home.chat()
                home.check()
            return home.refused, home.waited

    with ThreadPoolExecutor(HOMES) as pool:
        refused, waited = zip(*pool.map(live, range(4)), strict=True)
    assert sum(refused) > 0
    assert sum(waited) > 0


@pytest.mark.row(4)
def test_a_server_starts_on_a_full_disk_and_later_marks_what_broke_off(
    started: Servers, tmp_path: Path
) -> None:
    with Disk(tmp_path / "control") as disk:
        start_on_a_full_disk(started, disk, tmp_path)


def start_on_a_full_disk(started: Servers, disk: Disk, tmp_path: Path) -> None:
    task = Task(str(tmp_path), str(disk.file), step_s=0.005, again_s=0.05)
    server = started.start(task)
    with person_at(server.url) as person:
        person.wait_for("status", phase="ready")
        accepted = person.say(LONG_ONE)
        while not read_rows(tmp_path)[1].text:
            person.wait_for("delta")
        disk.fill()
        while "in memory alone" not in person.wait_for("status")["unsaved"]:
            pass
        server.kill()
    server = started.start(task)
    place = {"conversation_id": accepted["conversation_id"], "message_id": accepted["reply_id"]}
    assert LONG_ONE in get(f"{server.url}/c/{place['conversation_id']}").decode()
    with person_at(server.url) as person:
        assert "The disk is full" in person.wait_for("status", phase="ready")["unsaved"]
        person.send(
            "watch", conversation_id=place["conversation_id"], head_id=None, after_seq=0, running=False
        )
        assert "Interrupted" not in person.wait_for("snapshot")["html"]
        disk.work()
        assert "Interrupted" in person.wait_for("snapshot")["html"]
        person.wait_for("status", unsaved="")
        assert [row.status for row in read_rows(tmp_path)] == ["done", "interrupted"]
        person.wait_for("accepted", ref=person.send("continue", **place))
        person.wait_for("finished", message_id=accepted["reply_id"], finish_reason="stop")
    assert [row.text for row in read_rows(tmp_path)] == [LONG_ONE, scripted(LONG_ONE)]
    server.end()
