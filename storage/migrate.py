"""Brings a database to the newest schema, and backs up what was there. Imports Alembic only then."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from storage.backup import Room, back_up_before_migration, free_bytes
from storage.engine import make_engine
from storage.errors import DamagedDatabase, StorageError
from storage.migrations import FOLDER, REVISIONS
from storage.sqlite import Library, explain

logger = logging.getLogger(__name__)

TABLES = """SELECT name FROM sqlite_master
WHERE type = 'table' AND name <> 'alembic_version' AND name NOT LIKE 'search_index%'"""


def migrate(
    path: Path, library: Library, revision: str | None, scripts: Path = FOLDER, *, room: Room = free_bytes
) -> None:
    """Runs every revision after `revision`; None is a new file. What holds anything is backed up before.

    Where that cannot be done, nothing is: `StorageError`.
    """
    if revision is not None and _holds_anything(path, library):
        _back_up(path, revision, library, room)
    # Rebuilding a table would delete what refers to it; the keys are checked at the end instead.
    engine = make_engine(path, library, begin="BEGIN IMMEDIATE", pool_size=1, foreign_keys=False)
    try:
        _upgrade(engine, path, scripts)
    except DBAPIError as error:
        raise explain(error.orig, path) from error
    finally:
        engine.dispose()


def _holds_anything(path: Path, library: Library) -> bool:
    try:
        with closing(library.connect(str(path))) as connection:
            tables = connection.execute(TABLES).fetchall()
            return any(connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone() for (name,) in tables)
    except library.Error as error:
        raise explain(error, path) from error


def _back_up(path: Path, revision: str, library: Library, room: Room) -> None:
    try:
        kept = back_up_before_migration(path, revision, library, room=room)
    except StorageError as error:
        raise type(error)(f"{path} was not migrated, since it could not be backed up: {error}") from error
    logger.warning("Before schema %s becomes %s, everything was copied to %s", revision, REVISIONS[-1], kept)


def _upgrade(engine: Engine, path: Path, scripts: Path) -> None:
    """All in one transaction: the schema is the newest afterwards, or still the old."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise DamagedDatabase(f"{path} has a lost row in {broken[0]}; it was not migrated.")
