from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from storage.conversations import Conversations
from storage.database import Database
from storage.errors import DamagedDatabase, SchemaTooNew, UnusableFolder
from storage.files import FILE_NAME
from storage.sqlite import load_library
from tests.storage.examples import a_turn, contents

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def closed(folder: Path) -> Path:
    """The file of a sound database that nobody has open."""
    with closing(Database.open(folder)) as database:
        Conversations(database).begin_turn(a_turn())
    return folder / FILE_NAME


def write_revision(folder: Path, revision: str) -> None:
    with closing(Database.open(folder)) as database, database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = :new"), {"new": revision})


@posix
def test_only_the_owner_may_read_what_is_made(folder: Path, database: Database) -> None:
    Conversations(database).begin_turn(a_turn())
    assert mode(folder) == 0o700
    assert {file.name: mode(file) for file in folder.iterdir()} == {
        FILE_NAME: 0o600,
        f"{FILE_NAME}-wal": 0o600,
        f"{FILE_NAME}-shm": 0o600,
    }


@posix
def test_a_folder_that_was_there_keeps_its_mode(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    Database.open(folder).close()
    assert mode(folder) == 0o755


@posix
def test_a_file_that_others_could_read_is_made_private(closed: Path) -> None:
    closed.chmod(0o644)
    Database.open(closed.parent).close()
    assert mode(closed) == 0o600


def test_missing_parents_of_the_folder_are_made(folder: Path) -> None:
    Database.open(folder / "a" / "b").close()
    assert (folder / "a" / "b" / FILE_NAME).is_file()


@pytest.mark.parametrize("place", ["file", "file/data"])
def test_a_folder_that_cannot_be_made_is_refused_with_its_path(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableFolder, match=str(tmp_path / place)):
        Database.open(tmp_path / place)


def test_a_database_that_cannot_be_opened_is_refused_with_its_path(folder: Path) -> None:
    (folder / FILE_NAME).mkdir(parents=True)
    with pytest.raises(UnusableFolder, match=FILE_NAME):
        Database.open(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc takes no files")
def test_a_folder_that_takes_no_files_is_refused() -> None:
    with pytest.raises(UnusableFolder, match=f"/proc/{FILE_NAME}"):
        Database.open(Path("/proc"))


@pytest.mark.parametrize("name", ["with space", "100% #1?", "온돌", "a'b;c"])
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    for _ in range(2):
        Database.open(tmp_path / name).close()
    assert {file.name for file in (tmp_path / name).iterdir()} == {FILE_NAME}


def test_an_empty_file_becomes_a_database(folder: Path) -> None:
    folder.mkdir()
    (folder / FILE_NAME).touch()
    with closing(Database.open(folder)) as database:
        assert Conversations(database).list_recent() == []


def test_a_newer_schema_is_refused_and_nothing_is_changed(closed: Path) -> None:
    write_revision(closed.parent, "9999")
    before = contents(closed.parent)
    with pytest.raises(SchemaTooNew, match="9999"):
        Database.open(closed.parent)
    assert contents(closed.parent) == before


def test_a_newer_schema_that_is_still_in_the_log_is_refused(closed: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with closing(Database.open(closed.parent)) as database:
        with database.write() as session:
            session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        for end in ("", "-wal"):
            shutil.copy(f"{closed}{end}", crashed)
    before = contents(crashed)
    with pytest.raises(SchemaTooNew):
        Database.open(crashed)
    assert contents(crashed) | before == contents(crashed)


def test_garbage_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(b"no database" * 1000)
    before = contents(folder)
    with pytest.raises(DamagedDatabase, match="is not a database"):
        Database.open(folder)
    assert contents(folder) == before


@pytest.mark.parametrize("kept", [50, 100, 4096, 5000, 20480])
def test_a_cut_off_file_is_refused_and_left_alone(closed: Path, kept: int) -> None:
    os.truncate(closed, kept)
    before = contents(closed.parent)
    with pytest.raises(DamagedDatabase, match=FILE_NAME):
        Database.open(closed.parent)
    assert contents(closed.parent) == before


def test_a_page_of_garbage_is_found(closed: Path) -> None:
    with closed.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)
    with pytest.raises(DamagedDatabase):
        Database.open(closed.parent)


def test_the_database_of_another_program_is_refused(folder: Path) -> None:
    folder.mkdir()
    with closing(load_library().connect(str(folder / FILE_NAME))) as other:
        other.execute("CREATE TABLE recipes (name)")
    with pytest.raises(DamagedDatabase, match="another program"):
        Database.open(folder)


def test_a_first_start_that_was_cut_short_is_made_good(folder: Path) -> None:
    folder.mkdir()
    with closing(load_library().connect(str(folder / FILE_NAME))) as begun:
        begun.execute("PRAGMA journal_mode=WAL")
    with closing(Database.open(folder)) as database:
        assert Conversations(database).list_recent() == []
