from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, text

from storage.conversations import Conversations
from storage.database import Database
from storage.devices import Devices
from storage.engine import make_engine
from storage.errors import DamagedDatabase, SchemaTooNew, StorageError
from storage.files import BACKUPS_NAME, FILE_NAME
from storage.migrate import migrate
from storage.migrations import FOLDER, REVISIONS
from storage.sqlite import load_library
from storage.table import Table
from tests.storage.examples import a_turn, make_first_schema

NEWEST = REVISIONS[-1]
NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision = "next"
down_revision = "{NEWEST}"


def upgrade():
    with op.batch_alter_table("conversations") as table:
        table.add_column(sa.Column("colour", sa.String(), nullable=False, server_default="grey"))
        table.alter_column("title", type_=sa.String(300))
"""


def schema(engine: Engine) -> set[str]:
    """What SQLite keeps of every table and index, constraints included."""
    with engine.connect() as connection:
        made = connection.scalars(text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        return {" ".join(each.split()) for each in made if "alembic_version" not in each}


@pytest.fixture
def path(folder: Path) -> Path:
    """A database at the newest revision, with one conversation."""
    with closing(Database.open(folder)) as database:
        Conversations(database).begin_turn(a_turn(title="Kept"))
    return folder / FILE_NAME


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    made = make_engine(path, load_library(), begin="BEGIN", pool_size=1)
    yield made
    made.dispose()


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Our revisions and a later one that rebuilds a table which others refer to."""
    copied = tmp_path / "100% scripts"
    shutil.copytree(FOLDER, copied, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "versions" / "next_colour.py").write_text(NEXT)
    return copied


def is_ours(name: str | None, kind: str, _: object) -> bool:
    """FTS5 makes tables of its own."""
    return kind != "table" or name is None or not name.startswith("search_index")


@pytest.mark.filterwarnings("ignore:.*expression-based index")  # compared by the next test
def test_the_migrated_schema_equals_the_tables(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_name": is_ours})
        assert compare_metadata(context, Table.metadata) == []


def test_the_migrated_constraints_equal_the_tables(engine: Engine, tmp_path: Path) -> None:
    direct = create_engine(f"sqlite:///{tmp_path}/direct.sqlite3", module=load_library())
    Table.metadata.create_all(direct)
    assert schema(engine) == schema(direct)
    direct.dispose()


def test_the_listed_revisions_are_those_of_the_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    walked = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert list(REVISIONS) == walked[::-1]


def test_migrating_keeps_every_row(engine: Engine, path: Path, scripts: Path) -> None:
    migrate(path, load_library(), NEWEST, scripts)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT title, colour FROM conversations")).all() == [("Kept", "grey")]
        assert connection.scalar(text("SELECT count(*) FROM messages")) == 2
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "next"


def test_a_database_of_the_first_version_opens_with_its_messages(tmp_path: Path) -> None:
    path = tmp_path / "data" / FILE_NAME
    path.parent.mkdir()
    make_first_schema(path)
    with closing(load_library().connect(str(path))) as old:
        now = "2026-01-02 03:04:05"
        old.execute("INSERT INTO conversations VALUES ('c', 'Old', '', 'r', NULL, ?, ?)", (now, now))
        for values in (("u", None, "user", "hi"), ("r", "u", "assistant", "yes")):
            old.execute(
                "INSERT INTO messages (id, conversation_id, parent_id, role, text, status, created_at)"
                f" VALUES (?, 'c', ?, ?, ?, 'done', '{now}')",
                values,
            )
        old.commit()
    with closing(Database.open(path.parent)) as database:
        messages = Conversations(database).path("c")
    assert [(m.text, m.reasoning) for m in messages] == [("hi", None), ("yes", None)]


def backups(path: Path) -> list[Path]:
    return sorted((path.parent / BACKUPS_NAME).glob("*"))


def test_before_migrating_a_backup_is_made_and_named(
    path: Path, scripts: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(path, load_library(), NEWEST, scripts)
    (backup,) = backups(path)
    assert backup.name.startswith(f"schema-{NEWEST}-")
    assert [record.getMessage().partition("copied to ")[2] for record in caplog.records] == [str(backup)]
    with pytest.raises(SchemaTooNew):
        Database.open(path.parent)
    (tmp_path / "back").mkdir()
    shutil.copy(backup, tmp_path / "back" / FILE_NAME)
    with closing(Database.open(tmp_path / "back")) as database:
        assert [each.title for each in Conversations(database).list_recent()] == ["Kept"]


def test_the_newest_three_backups_stay(path: Path, scripts: Path) -> None:
    folder = path.parent / BACKUPS_NAME
    folder.mkdir()
    times = ("0008-20260101-000000-000000", "0007-20270101-000000-000000", "0009-20260301-000000-000000")
    for name in ("mine.sqlite3", "schema-0008-x.sqlite3.a1.part", *(f"schema-{t}.sqlite3" for t in times)):
        (folder / name).touch()
    migrate(path, load_library(), NEWEST, scripts)
    names = [each.name for each in backups(path)]
    assert f"schema-{times[0]}.sqlite3" not in names
    assert len(names) == 4
    assert {"mine.sqlite3", *(f"schema-{t}.sqlite3" for t in times[1:])} < set(names)


def test_a_database_with_nothing_in_it_is_migrated_without_a_backup(tmp_path: Path) -> None:
    make_first_schema(tmp_path / FILE_NAME)
    Database.open(tmp_path).close()
    assert not (tmp_path / BACKUPS_NAME).exists()


def test_without_room_for_a_backup_nothing_is_migrated(path: Path, scripts: Path) -> None:
    before, size = path.read_bytes(), path.stat().st_size
    with pytest.raises(
        StorageError, match=rf"not migrated.* needs {size:,} bytes, and {size - 1:,} are free"
    ):
        migrate(path, load_library(), NEWEST, scripts, room=lambda folder: size - 1)
    assert path.read_bytes() == before
    assert backups(path) == []
    migrate(path, load_library(), NEWEST, scripts, room=lambda folder: size)


def test_a_migration_that_fails_leaves_the_old_schema(engine: Engine, path: Path, scripts: Path) -> None:
    before = schema(engine)
    with (scripts / "versions" / "next_colour.py").open("a") as script:
        script.write("    op.execute('INSERT INTO nowhere VALUES (1)')\n")
    with pytest.raises(StorageError, match="nowhere"):
        migrate(path, load_library(), NEWEST, scripts)
    assert schema(engine) == before
    engine.dispose()
    with closing(Database.open(path.parent)) as database:
        assert [each.title for each in Conversations(database).list_recent()] == ["Kept"]


def test_a_migration_that_loses_a_parent_is_undone(engine: Engine, path: Path, scripts: Path) -> None:
    with (scripts / "versions" / "next_colour.py").open("a") as script:
        script.write("    op.execute('DELETE FROM conversations')\n")
    with pytest.raises(DamagedDatabase, match="has a lost row"):
        migrate(path, load_library(), NEWEST, scripts)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM conversations")) == 1


def test_every_older_schema_is_brought_to_the_newest_with_its_rows(tmp_path: Path) -> None:
    for revision in REVISIONS[:-1]:
        path = tmp_path / revision / FILE_NAME
        path.parent.mkdir()
        older = make_engine(path, load_library(), begin="BEGIN IMMEDIATE", pool_size=1)
        config = Config()
        config.set_main_option("script_location", str(FOLDER))
        with older.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            connection.execute(
                text(
                    "INSERT INTO conversations (id, title, system_prompt, created_at, updated_at)"
                    " VALUES ('c', 'Kept', '', :t, :t)"
                ),
                {"t": "2026-11-29 12:00:00"},
            )
        older.dispose()
        with closing(Database.open(path.parent)) as database:
            assert [each.title for each in Conversations(database).list_recent()] == ["Kept"]
            assert Devices(database).list_valid() == []
