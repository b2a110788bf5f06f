from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from storage.backup import back_up_folder, contents_of
from storage.checking import check
from storage.conversations import Conversations
from storage.database import Database
from storage.devices import Devices
from storage.errors import SchemaTooNew, StorageError, UnusableFolder
from storage.files import BACKUPS_NAME, FILE_NAME, LOCK_NAME, SIDE_FILES, sole_user
from storage.migrations import REVISIONS
from storage.restore import restore
from storage.sqlite import load_library
from tests.storage.dying import dying_children
from tests.storage.examples import a_turn, contents, make_first_schema


def titles(folder: Path) -> list[str]:
    with closing(Database.open(folder)) as database:
        return sorted(each.title for each in Conversations(database).list_recent())


def keep(folder: Path, title: str) -> None:
    with closing(Database.open(folder)) as database:
        Conversations(database).begin_turn(a_turn(title=title))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which something was written after its backup."""
    place = tmp_path_factory.mktemp("made")
    keep(place / "data", "Before")
    back_up_folder(place / "data", place / "backup.sqlite3")
    keep(place / "data", "After")
    return place


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    """The backup, beside the folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "backup.sqlite3"


def test_what_was_there_is_replaced_and_kept(file: Path, folder: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    restored = restore(file, folder)
    assert restored.contents == contents_of(file, load_library())
    assert restored.kept is not None
    assert {each.name for each in folder.iterdir()} == {FILE_NAME, LOCK_NAME, BACKUPS_NAME}
    assert os.name != "posix" or (folder / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert titles(folder) == ["Before"]
    assert file.read_bytes() == before
    restore(restored.kept, folder)
    assert titles(folder) == ["After", "Before"]


def test_the_log_of_a_killed_server_goes_with_what_is_kept(file: Path, folder: Path, tmp_path: Path) -> None:
    """A log that stayed would be played into the restored file."""
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with closing(Database.open(folder)) as database:
        Conversations(database).begin_turn(a_turn(title="In the log"))
        for end in ("", *SIDE_FILES[:2]):
            shutil.copy(f"{folder / FILE_NAME}{end}", crashed)
    restored = restore(file, crashed)
    assert titles(crashed) == ["Before"]
    assert restored.kept is not None
    restore(restored.kept, crashed)
    assert titles(crashed) == ["After", "Before", "In the log"]


def test_restoring_that_is_killed_at_any_step_leaves_the_old_or_the_new(
    file: Path, folder: Path, tmp_path: Path, long: bool
) -> None:
    """A short run takes every fourth step."""
    with closing(Database.open(folder)) as database:
        Conversations(database).begin_turn(a_turn(title="In the log"))
        shutil.copytree(folder, tmp_path / "crashed")
    shutil.copy(file, tmp_path / "crashed")
    with dying_children() as do_until:
        steps = do_until("restore", Path(shutil.copytree(tmp_path / "crashed", tmp_path / "whole")), None)
        became = []
        for step in range(0, steps, 1 if long else 4):
            copied = Path(shutil.copytree(tmp_path / "crashed", tmp_path / str(step)))
            assert do_until("restore", copied, step) == step
            assert check(copied / FILE_NAME).damage == ""
            became.append(titles(copied))
    old, new = ["After", "Before", "In the log"], ["Before"]
    at = became.index(new)
    assert became == [old] * at + [new] * (len(became) - at)
    assert at > 0


def test_a_damaged_database_is_kept_as_it_is(file: Path, folder: Path) -> None:
    for end in ("", "-wal", "-shm"):
        (folder / f"{FILE_NAME}{end}").write_bytes(b"garbage" * 1000)
    restored = restore(file, folder)
    assert titles(folder) == ["Before"]
    assert restored.kept is not None
    assert restored.kept.read_bytes() == b"garbage" * 1000


def test_a_folder_without_a_database_gets_one(file: Path, tmp_path: Path) -> None:
    restored = restore(file, tmp_path / "new" / "machine")
    assert restored.kept is None
    assert titles(tmp_path / "new" / "machine") == ["Before"]


def test_how_many_devices_are_let_in_again_is_told(file: Path, folder: Path, tmp_path: Path) -> None:
    with closing(Database.open(folder)) as database:
        devices = Devices(database)
        for name in ("Phone", "Tablet"):
            devices.add(name.encode(), name, None)
        devices.revoke(devices.list_valid()[0].id)
    back_up_folder(folder, tmp_path / "later.sqlite3")
    assert restore(tmp_path / "later.sqlite3", folder).devices == 1
    assert restore(file, folder).devices == 0


def assert_refused(
    kind: type[StorageError], words: str, file: Path, folder: Path, room: int | None = None
) -> None:
    before = {name: data for name, data in contents(folder).items() if name != LOCK_NAME}
    with pytest.raises(kind, match=words):
        restore(file, folder, **({} if room is None else {"room": lambda place: room}))
    assert {name: data for name, data in contents(folder).items() if name != LOCK_NAME} == before


def test_while_a_server_uses_the_folder_nothing_is_restored(file: Path, folder: Path) -> None:
    with sole_user(folder):
        assert_refused(UnusableFolder, "A server uses the data folder .*: end it first", file, folder)
    restore(file, folder)


def test_while_another_command_has_the_database_nothing_is_restored(file: Path, folder: Path) -> None:
    with closing(Database.open(folder)) as database, database.read():
        assert_refused(StorageError, "Another program holds", file, folder)


def test_a_newer_schema_is_refused_with_both_versions(file: Path, folder: Path) -> None:
    with closing(load_library().connect(str(file))) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    assert_refused(SchemaTooNew, f"schema 9999, here {REVISIONS[-1]}", file, folder)


def write_nothing(file: Path) -> None:
    file.write_bytes(b"")


def write_garbage(file: Path) -> None:
    file.write_bytes(b"no database" * 1000)


def cut_off(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def write_another_program(file: Path) -> None:
    file.unlink()
    with closing(load_library().connect(str(file))) as other:
        other.execute("CREATE TABLE alembic_version (version_num)")
        other.execute("CREATE TABLE recipes (name)")


def lose_a_parent(file: Path) -> None:
    with closing(load_library().connect(str(file))) as connection:
        connection.execute("DELETE FROM messages WHERE role = 'user'")
        connection.commit()


def break_an_index(file: Path) -> None:
    """A quick check does not see it."""
    with closing(load_library().connect(str(file))) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET rootpage ="
            " (SELECT rootpage FROM sqlite_master WHERE name = 'devices_token_hash')"
            " WHERE name = 'messages_children'"
        )
        connection.commit()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (write_nothing, "no database of Ondol"),
        (write_garbage, "is not a database"),
        (cut_off, "is damaged"),
        (write_another_program, "another program"),
        (lose_a_parent, "refers to a missing one"),
        (break_an_index, "is damaged"),
        (Path.unlink, "There is no file"),
    ],
)
def test_a_file_that_is_no_sound_database_of_ours_is_refused(
    file: Path, folder: Path, spoil: object, words: str
) -> None:
    assert callable(spoil)
    spoil(file)
    assert_refused(StorageError, words, file, folder)


def test_a_folder_that_is_a_file_is_refused(file: Path) -> None:
    with pytest.raises(UnusableFolder, match="cannot be made"):
        restore(file, file)


def test_the_database_itself_is_no_backup(file: Path, folder: Path) -> None:
    assert_refused(StorageError, "of the data folder itself", folder / FILE_NAME, folder)


def test_without_room_nothing_is_restored(file: Path, folder: Path) -> None:
    assert_refused(StorageError, "needs .* bytes, and 100 are free", file, folder, room=100)


def test_an_older_schema_is_migrated_by_the_next_start(file: Path, folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.sqlite3"
    make_first_schema(old)
    with closing(load_library().connect(str(old))) as connection:
        now = "2026-01-02 03:04:05"
        connection.execute("INSERT INTO conversations VALUES ('c', 'Old', '', NULL, NULL, ?, ?)", (now, now))
        connection.commit()
    restored = restore(old, folder)
    assert (restored.contents.revision, restored.devices) == ("0001", 0)
    assert titles(folder) == ["Old"]
    assert len(list((folder / BACKUPS_NAME).glob("schema-0001-*.sqlite3"))) == 1


def test_restoring_is_whole_where_files_cannot_have_two_names(file: Path, folder: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    kept = restore(file, folder, link=refuse).kept
    assert titles(folder) == ["Before"]
    assert kept is not None
    restore(kept, folder)
    assert titles(folder) == ["After", "Before"]
