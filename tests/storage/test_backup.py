from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text

from storage.backup import Contents, back_up, back_up_folder
from storage.conversations import Conversations
from storage.database import Database
from storage.errors import DamagedDatabase, StorageError, UnusableFolder
from storage.files import FILE_NAME
from storage.migrations import REVISIONS
from storage.sqlite import load_library
from tests.storage.examples import a_turn, an_end, contents

ROOT = Path(__file__).parents[2]
BACKUPS = 50


@pytest.fixture
def data(folder: Path) -> Path:
    """A data folder with one turn, which nobody uses."""
    with closing(Database.open(folder)) as database:
        Conversations(database).begin_turn(a_turn())
    return folder


def test_a_backup_opens_with_what_was_still_in_the_log(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / FILE_NAME
    copy.parent.mkdir()
    with closing(Database.open(folder)) as database:
        kept = Conversations(database).begin_turn(a_turn())
        assert (folder / f"{FILE_NAME}-wal").stat().st_size > 0
        found = back_up_folder(folder, copy)
    assert found == Contents(REVISIONS[-1], 1, 2, copy.stat().st_size)
    assert list(contents(copy.parent)) == [FILE_NAME]
    assert os.name != "posix" or copy.stat().st_mode & 0o777 == 0o600
    with closing(Database.open(copy.parent)) as database:
        assert Conversations(database).path(kept.conversation.id) == [kept.user, kept.reply]


def test_a_backup_leaves_the_data_folder_as_it_was(data: Path, tmp_path: Path) -> None:
    before = contents(data)
    back_up_folder(data, tmp_path / "copy.sqlite3")
    assert contents(data) == before


def test_a_file_is_replaced_only_when_that_is_wanted(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.sqlite3"
    target.write_text("mine")
    target.chmod(0o644)
    with pytest.raises(StorageError, match="exists already"):
        back_up_folder(data, target)
    assert target.read_text() == "mine"
    back_up_folder(data, target, replace=True)
    assert target.read_bytes().startswith(b"SQLite format 3")
    assert os.name != "posix" or target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [FILE_NAME, f"{FILE_NAME}-wal", "ondol.lock", f"../data/{FILE_NAME}"])
def test_what_the_server_works_with_is_never_replaced(data: Path, name: str) -> None:
    before = contents(data)
    with pytest.raises(StorageError, match="Ondol itself uses"):
        back_up_folder(data, data / name, replace=True)
    assert contents(data) == before


def test_what_cannot_be_written_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UnusableFolder, match="No such file or directory"):
        back_up_folder(data, tmp_path / "no" / "copy.sqlite3")
    with pytest.raises(StorageError, match="exists already"):
        back_up_folder(data, tmp_path, replace=True)
    with pytest.raises(StorageError, match="no conversations in"):
        back_up_folder(tmp_path, tmp_path / "copy.sqlite3")


def damage_a_page(folder: Path) -> None:
    with (folder / FILE_NAME).open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)


def lose_a_parent(folder: Path) -> None:
    with closing(load_library().connect(str(folder / FILE_NAME))) as connection:
        connection.execute("DELETE FROM messages WHERE role = 'user'")
        connection.commit()


@pytest.mark.parametrize("spoil", [damage_a_page, lose_a_parent])
def test_a_backup_of_a_damaged_file_is_not_kept(data: Path, tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(data)
    target = tmp_path / "copy.sqlite3"
    target.write_text("the backup before")
    with pytest.raises(DamagedDatabase, match=f"{data}/{FILE_NAME} is damaged"):
        back_up_folder(data, target, replace=True)
    assert contents_of_files(tmp_path) == {"copy.sqlite3": b"the backup before"}


def contents_of_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_disk_that_fills_up_meanwhile_leaves_nothing_behind(data: Path, tmp_path: Path) -> None:
    with closing(Database.open(data)) as database:
        turn = Conversations(database).begin_turn(a_turn(text="글" * 300_000))
        Conversations(database).finish(turn.reply.id, an_end())
    code = (
        "import resource, signal, sys; from pathlib import Path; from storage.backup import back_up_folder\n"
        "from storage.errors import StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
        "try: back_up_folder(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except StorageError as error: sys.exit(f'told: {error}')"
    )
    command = [sys.executable, "-c", code, str(data), str(tmp_path / "copy.sqlite3")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr[:6]) == (1, "told: ")
    assert contents_of_files(tmp_path) == {}


@pytest.mark.row(37)
def test_backups_of_a_database_that_is_being_written_hold_what_was_acknowledged(
    folder: Path, tmp_path: Path
) -> None:
    """Row 37 of the test plan: each backup opens, is sound and misses nothing that was said at its start."""
    copy, said, library = tmp_path / "copy.sqlite3", list[str](), load_library()
    command = [sys.executable, "-m", "tests.storage.writer", str(folder), "60"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said.append(writer.stdout.readline())
        reading = Thread(target=said.extend, args=(writer.stdout,))
        reading.start()
        try:
            counts = []
            for _ in range(BACKUPS):
                acknowledged = [line.split() for line in list(said) if line.endswith("\n")]
                back_up(folder / FILE_NAME, copy, library)
                counts.append(len(acknowledged))
                check_backup(copy, acknowledged)
        finally:
            writer.kill()
            reading.join()
    assert counts[-1] > counts[0]


def check_backup(copy: Path, acknowledged: list[list[str]]) -> None:
    with closing(load_library().connect(str(copy))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        clients = {client for (client,) in connection.execute("SELECT client_id FROM messages")}
        lengths = dict(connection.execute("SELECT id, length(text) FROM messages").fetchall())
    assert clients >= {client for what, client, _ in acknowledged if what == "turn"}
    for what, reply, kept in acknowledged:
        assert what == "turn" or lengths[reply] >= int(kept)


def test_a_backup_does_not_wait_for_a_transaction_that_is_open(folder: Path, tmp_path: Path) -> None:
    with closing(Database.open(folder)) as database:
        kept = Conversations(database).begin_turn(a_turn()).conversation
        with database.write() as session:
            session.execute(text("UPDATE conversations SET title = 'not yet'"))
            back_up_folder(folder, tmp_path / "copy.sqlite3")
    with closing(load_library().connect(str(tmp_path / "copy.sqlite3"))) as connection:
        assert connection.execute("SELECT title FROM conversations").fetchall() == [(kept.title,)]
