"""Row 2: the power fails at any moment. A real process was recorded, and what it had not synced is lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import pytest

from storage.backup import contents_of
from storage.conversations import Conversations
from storage.database import Database
from storage.files import BACKUPS_NAME, FILE_NAME
from storage.sqlite import load_library
from tests.reliability.disk import Disk, build_library
from tests.reliability.household import person_at, read_rows
from tests.reliability.power import Call, Machine, read_record, told
from tests.reliability.servers import Servers, Task, scripted, servers
from tests.storage.examples import make_first_schema
from tests.storage.test_migration_kills import CONVERSATIONS, write_rows
from web.bench_pages import get

Frame: TypeAlias = dict[str, Any]

STARTS, PEOPLE, TURNS = 2, 2, 2
KEPT = (0.0, 0.0, 0.1, 0.5, 0.9)
"""How likely something not synced is on the disk all the same."""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers(build_library(tmp_path_factory.mktemp("library"))) as running:
        yield running


@dataclass(frozen=True)
class Recording:
    """A process's work in a folder, which began as `before`."""

    before: Path
    calls: list[Call]


def record_server(started: Servers, folder: Path, synchronous: str = "FULL") -> Recording:
    """A server's first start and a second one, and two people who chat with it at once."""
    folder.mkdir()
    record = folder / "record"
    with Disk(folder / "control") as disk:
        task = Task(str(folder), str(disk.file), str(record), step_s=0.0, synchronous=synchronous)
        for _ in range(STARTS):
            server = started.start(task)
            get(server.url)
            with ThreadPoolExecutor(PEOPLE) as pool:
                list(pool.map(_talk, [server.url] * PEOPLE))
            server.end()
    calls = read_record(record)
    ended = sum(frame["type"] == "finished" for call in calls for frame in told(call))
    assert ended == STARTS * PEOPLE * TURNS
    return Recording(folder / "nothing", calls)


def _talk(url: str) -> None:
    with person_at(url) as person:
        person.wait_for("status", phase="ready")
        place: dict[str, str] = {}
        for _ in range(TURNS):
            accepted, _ = person.say_and_wait(f"Question {uuid4().hex}", **place)
            place = {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}
        person.send("send", text=f"Question {uuid4().hex}", **place)
        person.wait_for("delta")  # and it goes on while the server ends


def record_migration(started: Servers, folder: Path) -> Recording:
    """The newest version opens a database of the first one that has something in it."""
    folder.mkdir()
    data, before = folder / "data", folder / "before"
    data.mkdir()
    make_first_schema(data / FILE_NAME)
    with closing(load_library().connect(str(data / FILE_NAME))) as connection:
        write_rows(connection)
    shutil.copytree(data, before)
    with Disk(folder / "control") as disk:
        record = folder / "record"
        task = Task(str(folder), str(disk.file), str(record), serve=False)
        assert started.start(task).wait() == 0
    return Recording(before, read_record(record))


def check_cuts(
    recording: Recording, scratch: Path, cuts: int, check: Callable[[Path, list[Frame]], None]
) -> None:
    """Cuts the power so many times, anywhere: the product opens what is left, and then it is checked."""
    chance = random.Random(cuts)
    places = sorted(chance.choices(range(len(recording.calls) + 1), k=cuts))
    machine, frames, done = Machine(recording.before), list[Frame](), 0
    for place in places:
        for call in recording.calls[done:place]:
            machine.take(call)
            frames.extend(told(call))
        done = place
        machine.cut(scratch / "data", chance, chance.choice(KEPT))
        with closing(Database.open(scratch / "data")) as database:
            Conversations(database).interrupt_leftovers()
        check(scratch, frames)
        shutil.rmtree(scratch / "data")


def check_chats(house: Path, frames: list[Frame]) -> None:
    """All that was told is there once; every reply is what the double says, or its beginning."""
    rows = read_rows(house)
    by_id = {row.id: row for row in rows}
    questions = {row.client_id: row for row in rows if row.role == "user"}
    assert 2 * len(questions) == len(rows)
    for frame in frames:
        if frame["type"] == "accepted":
            assert by_id[frame["reply_id"]].parent_id == questions[frame["ref"]].id
        elif frame["type"] == "finished":
            assert by_id[frame["message_id"]].status == "done"
    for reply in (row for row in rows if row.role == "assistant"):
        whole = scripted(by_id[reply.parent_id or ""].text)
        assert whole.startswith(reply.text)
        assert reply.text == whole or reply.status == "interrupted"


def check_migrated(house: Path, frames: list[Frame]) -> None:
    """All that was there before is there, and so is a backup of it with nothing missing."""
    assert len(read_rows(house)) == 2 * CONVERSATIONS
    backups = list((house / "data" / BACKUPS_NAME).glob("schema-*.sqlite3"))
    assert backups
    for backup in backups:
        assert contents_of(backup, load_library()).messages == 2 * CONVERSATIONS


@pytest.mark.row(2)
def test_what_was_told_survives_a_power_cut(started: Servers, tmp_path: Path, long: bool) -> None:
    for number in range(3 if long else 1):
        recording = record_server(started, tmp_path / f"server-{number}")
        check_cuts(recording, tmp_path, 3_000 if long else 150, check_chats)


@pytest.mark.row(2)
def test_without_full_syncs_the_same_cuts_lose_what_was_told(started: Servers, tmp_path: Path) -> None:
    recording = record_server(started, tmp_path / "server", synchronous="NORMAL")
    with pytest.raises((AssertionError, KeyError)):
        check_cuts(recording, tmp_path, 150, check_chats)


@pytest.mark.row(2)
def test_a_migration_and_its_backup_survive_a_power_cut(started: Servers, tmp_path: Path, long: bool) -> None:
    recording = record_migration(started, tmp_path / "old")
    check_cuts(recording, tmp_path, 1_000 if long else 50, check_migrated)
