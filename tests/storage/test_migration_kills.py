"""Row 36 of the test plan: from each old schema, killed at each step, it is old or new, never between.

The short run takes twenty steps of each schema; `--long` takes all.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config

from storage.backup import contents_of
from storage.checking import Fault, check
from storage.database import Database
from storage.engine import make_engine
from storage.files import BACKUPS_NAME, FILE_NAME
from storage.migrations import FOLDER, REVISIONS
from storage.sqlite import load_library
from tests.storage.dying import DoUntil, dying_children

NEWEST = REVISIONS[-1]
CONVERSATIONS = 20
SHORT = 20


@pytest.fixture(scope="module")
def old_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A database at each revision, with the rows that it was given at the first."""
    folder = tmp_path_factory.mktemp("old")
    path = folder / FILE_NAME
    engine = make_engine(path, load_library(), begin="BEGIN IMMEDIATE", pool_size=1, foreign_keys=False)
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    for revision in REVISIONS:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
        if revision == REVISIONS[0]:
            with closing(load_library().connect(str(path))) as connection:
                write_rows(connection)
        with closing(load_library().connect(str(path))) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path, folder / revision)
    engine.dispose()
    return {revision: folder / revision for revision in REVISIONS}


def write_rows(connection: sqlite3.Connection) -> None:
    now = "2026-01-02 03:04:05"
    for number in range(CONVERSATIONS):
        chat, question, reply = (f"{kind}{number}" for kind in "cqr")
        values = (chat, f"No. {number}", reply, now, now)
        connection.execute("INSERT INTO conversations VALUES (?, ?, '', ?, NULL, ?, ?)", values)
        for row in ((question, None, "user", "안녕"), (reply, question, "assistant", "네")):
            connection.execute(
                "INSERT INTO messages (id, conversation_id, parent_id, role, text, status, created_at)"
                f" VALUES (?, '{chat}', ?, ?, ?, 'done', '{now}')",
                row,
            )
    connection.commit()


@pytest.fixture(scope="module")
def do_until() -> Iterator[DoUntil]:
    with dying_children() as do_until:
        yield do_until


def put(old: Path, folder: Path) -> Path:
    folder.mkdir()
    return Path(shutil.copy(old, folder / FILE_NAME))


@cache
def expected_of(old: Path) -> tuple[set[tuple[str, str]], list[tuple[str, ...]]]:
    return schema_of(old), rows_of(old)


def schema_of(path: Path) -> set[tuple[str, str]]:
    with closing(load_library().connect(str(path))) as connection:
        return set(connection.execute("SELECT name, sql FROM sqlite_master"))


def rows_of(path: Path) -> list[tuple[str, ...]]:
    query = """SELECT conversations.id, title, head_id, messages.id, parent_id, role, text, status
        FROM conversations JOIN messages ON conversation_id = conversations.id ORDER BY messages.id"""
    with closing(load_library().connect(str(path))) as connection:
        return connection.execute(query).fetchall()


def assert_old_or_new(folder: Path, revision: str, old_files: dict[str, Path]) -> bool:
    """Whether it is the new one."""
    path = folder / FILE_NAME
    with closing(load_library().connect(str(path))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        (version,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert version in (revision, NEWEST)
    schema, rows = expected_of(old_files[revision])
    assert schema_of(path) == expected_of(old_files[version])[0]
    assert rows_of(path) == rows
    for backup in (folder / BACKUPS_NAME).glob("*.sqlite3"):
        found = contents_of(backup, load_library())
        assert (found.revision, found.conversations) == (revision, CONVERSATIONS)
        assert (schema_of(backup), rows_of(backup)) == (schema, rows)
    return bool(version == NEWEST)


@pytest.mark.row(36)
@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_a_migration_killed_at_any_step_leaves_the_old_or_the_new(
    revision: str, old_files: dict[str, Path], do_until: DoUntil, tmp_path: Path, long: bool
) -> None:
    whole = tmp_path / "whole"
    put(old_files[revision], whole)
    steps = do_until("open", whole, None)
    assert assert_old_or_new(whole, revision, old_files)
    chosen = range(steps) if long else {*range(int(revision) % 3, steps, steps // (SHORT - 1)), steps - 1}
    became_new = []
    for step in sorted(chosen):
        folder = tmp_path / str(step)
        put(old_files[revision], folder)
        assert do_until("open", folder, step) == step
        is_new = assert_old_or_new(folder, revision, old_files)
        assert not is_new or list((folder / BACKUPS_NAME).glob("*.sqlite3"))
        became_new.append(is_new)
    assert became_new == sorted(became_new), "once it is new, it stays so"
    assert not became_new[0]
    assert became_new[-1]
    with closing(Database.open(tmp_path / str(sorted(chosen)[len(chosen) // 2]))) as database:
        found = check(database.path)
    assert found.revision == NEWEST
    assert not any(ids for fault, ids in found.ids.items() if fault is not Fault.UNFINISHED)
