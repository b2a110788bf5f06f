"""Brings a database to the newest schema, and keeps a copy of what was there. Imports Alembic only then."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from storage.engine import make_engine
from storage.errors import DamagedDatabase
from storage.files import make_private_file
from storage.migrations import FOLDER
from storage.sqlite import Library, explain


def migrate(path: Path, library: Library, revision: str | None, scripts: Path = FOLDER) -> None:
    """Runs every revision after `revision`. None is a new file; of any other a copy is kept beside it."""
    if revision is not None:
        back_up(path, path.with_name(f"{path.name}.schema-{revision}"), library)
    # Rebuilding a table would delete what refers to it; the keys are checked at the end instead.
    engine = make_engine(path, library, begin="BEGIN IMMEDIATE", pool_size=1, foreign_keys=False)
    try:
        _upgrade(engine, path, scripts)
    except DBAPIError as error:
        raise explain(error.orig, path) from error
    finally:
        engine.dispose()


def back_up(path: Path, copy: Path, library: Library) -> None:
    """`copy` appears whole and checked, or not at all. An older copy of that name is replaced."""
    unfinished = copy.with_name(copy.name + ".part")
    unfinished.unlink(missing_ok=True)
    make_private_file(unfinished)
    try:
        with (
            closing(library.connect(str(path))) as source,
            closing(library.connect(str(unfinished))) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")
            faults = target.execute("PRAGMA quick_check(1)").fetchone()[0]
    except library.Error as error:
        unfinished.unlink(missing_ok=True)
        raise explain(error, unfinished) from error
    if faults != "ok":
        unfinished.unlink()
        raise DamagedDatabase(f"The copy of {path} is damaged ({faults}); it was not migrated.")
    os.replace(unfinished, copy)


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
