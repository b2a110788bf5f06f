from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager, closing
from pathlib import Path
from threading import Barrier, Thread

import pytest
from sqlalchemy import text
from sqlalchemy.exc import StatementError
from sqlalchemy.orm import Session

from storage.conversations import Conversations
from storage.database import Database
from storage.errors import StorageError
from storage.files import FILE_NAME
from storage.sqlite import load_library
from tests.storage.examples import a_turn

ROOT = Path(__file__).parents[2]


def session_of(database: Database, engine: str) -> AbstractContextManager[Session]:
    return database.read() if engine == "reading" else database.write()


@pytest.mark.parametrize("engine", ["reading", "writing"])
@pytest.mark.parametrize(
    ("pragma", "value"),
    [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("busy_timeout", 5000)],
)
def test_the_pragmas_are_in_force(database: Database, engine: str, pragma: str, value: object) -> None:
    with session_of(database, engine) as session:
        assert session.scalar(text(f"PRAGMA {pragma}")) == value


def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises(StorageError, match="cannot be written"), database.read() as session:
        session.execute(text("DELETE FROM conversations"))


def test_a_reader_sees_one_unchanging_view(database: Database, conversations: Conversations) -> None:
    count = text("SELECT count(*) FROM conversations")
    with database.read() as session:
        before = session.scalar(count)
        conversations.begin_turn(a_turn())
        assert session.scalar(count) == before
    with database.read() as session:
        assert session.scalar(count) == 1


def test_an_exception_undoes_what_was_written(database: Database, conversations: Conversations) -> None:
    conversations.begin_turn(a_turn())

    def fail_half_way() -> None:
        with database.write() as session:
            session.execute(text("DELETE FROM conversations"))
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    assert len(conversations.list_recent()) == 1


def test_a_writer_holds_the_lock_before_its_first_write(database: Database) -> None:
    with closing(load_library().connect(str(database.path))) as other:
        other.execute("PRAGMA busy_timeout=0")
        with database.write(), pytest.raises(load_library().Error, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        with database.read():
            other.execute("BEGIN IMMEDIATE")


def test_writers_wait_for_each_other(database: Database) -> None:
    start = Barrier(4)

    def count_up() -> None:
        start.wait()
        for _ in range(10):
            with database.write() as session:
                value = session.scalar(text("PRAGMA user_version"))
                session.execute(text(f"PRAGMA user_version={value + 1}"))

    threads = [Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        assert session.scalar(text("PRAGMA user_version")) == 40


def test_a_full_disk_keeps_what_was_there_and_clears(
    database: Database, conversations: Conversations
) -> None:
    kept = conversations.begin_turn(a_turn())
    with database.write() as session:
        session.execute(text("PRAGMA max_page_count=20"))
    with pytest.raises(StorageError, match="is full") as caught:
        conversations.begin_turn(a_turn(text="x" * 1_000_000))
    assert caught.value.__cause__ is not None
    assert conversations.list_recent() == [kept.conversation]
    with database.write() as session:
        session.execute(text("PRAGMA max_page_count=100000"))
    assert conversations.begin_turn(a_turn(text="x" * 1_000_000)).repeated is False


def test_a_database_held_by_another_program_is_said_to_be(
    database: Database, conversations: Conversations
) -> None:
    with database.write() as session:
        session.execute(text("PRAGMA busy_timeout=10"))
    with closing(load_library().connect(str(database.path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="Another program holds"):
            conversations.begin_turn(a_turn())
        other.rollback()
    assert conversations.begin_turn(a_turn()).repeated is False


def test_closing_twice_leaves_one_file(folder: Path, database: Database) -> None:
    Conversations(database).begin_turn(a_turn())
    database.close()
    database.close()
    assert [file.name for file in folder.iterdir()] == [FILE_NAME]


def test_a_closed_database_says_so(database: Database, conversations: Conversations) -> None:
    database.close()
    with pytest.raises(StorageError, match="has been closed"):
        conversations.list_recent()


def test_what_was_kept_is_there_after_reopening(folder: Path) -> None:
    with closing(Database.open(folder)) as database:
        kept = Conversations(database).begin_turn(a_turn())
    with closing(Database.open(folder)) as database:
        assert Conversations(database).path(kept.conversation.id) == [kept.user, kept.reply]


def test_a_start_without_a_migration_does_not_import_alembic(folder: Path) -> None:
    Database.open(folder).close()
    program = (
        "import sys; from pathlib import Path; from storage.database import Database;"
        "Database.open(Path(sys.argv[1])).close(); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, folder], cwd=ROOT, check=False).returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
def test_a_failing_disk_is_said_to_fail_and_loses_nothing(folder: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
from storage.conversations import Conversations
from storage.database import Database
from storage.errors import StorageError
from tests.storage.examples import a_turn
database = Database.open(Path(sys.argv[1]))
conversations = Conversations(database)
kept = conversations.begin_turn(a_turn())
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
try:
    conversations.begin_turn(a_turn(text="x" * 1_000_000))
except StorageError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert conversations.list_recent() == [kept.conversation]
conversations.begin_turn(a_turn(text="x" * 1_000_000))
assert len(conversations.list_recent()) == 2
database.close()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, folder], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert "The disk failed" in ran.stdout or "is full" in ran.stdout


def test_an_error_quotes_nothing_that_is_stored(tmp_path: Path) -> None:
    """What it was made of is logged with it."""
    with closing(Database.open(tmp_path)) as database:
        for statement in ("SELECT nothing, :said", "SELECT :said, :other"):
            with pytest.raises((StorageError, StatementError)) as raised, database.read() as session:
                session.execute(text(statement), {"said": "marzipan"})
            told = [str(raised.value), str(raised.value.__cause__), str(raised.value.__context__)]
            assert [each for each in told if "marzipan" in each] == []
            assert str(tmp_path) not in told[0]
