"""Engines over the database file: how each connection is set up and begins its transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from storage.errors import StorageError
from storage.sqlite import Library


def make_engine(
    path: Path,
    library: Library,
    *,
    begin: str,
    pool_size: int,
    foreign_keys: bool = True,
    query_only: bool = False,
) -> Engine:
    """Connections to the file that begin every transaction with `begin`, with Ondol's pragmas in force.

    At most `pool_size` are open; a further one is waited for.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        module=library,
        pool_size=pool_size,
        max_overflow=0,
        hide_parameters=True,  # an error that is logged must not quote what people wrote
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: object) -> None:
        # Python's own transaction control leaves BEGIN out before reads and DDL.
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout=5000")
        if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise StorageError(f"{path} cannot keep a write-ahead log: it has to be on a local disk.")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA foreign_keys={int(foreign_keys)}")
        connection.execute(f"PRAGMA query_only={int(query_only)}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
