"""What the SQLite library at hand may be used for, and what its errors mean to a person."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from storage.errors import DamagedDatabase, DiskFull, NotWritable, StorageError, UnsafeSQLite, UnusableFolder

Version: TypeAlias = tuple[int, ...]

_FIXED: Version = (3, 51, 3)
_FIXED_IN_SERIES = {(3, 50): (3, 50, 7), (3, 44): (3, 44, 6)}


class Library(Protocol):
    """A DB-API module over SQLite: the standard `sqlite3`, or `pysqlite3` with its own copy of SQLite."""

    __name__: str
    sqlite_version_info: Version
    Error: type[sqlite3.Error]

    def connect(self, database: str, *, uri: bool = False) -> sqlite3.Connection: ...


def is_safe(version: Version) -> bool:
    """Whether this SQLite is free of the WAL-reset corruption bug (https://sqlite.org/wal.html#walresetbug).

    Fixed in 3.51.3, and in 3.50.7 and 3.44.6 of the older series.
    """
    fixed = _FIXED_IN_SERIES.get((version[0], version[1]), _FIXED)
    return version >= fixed


def choose_library(candidates: Sequence[Library]) -> Library:
    """The first safe one; `UnsafeSQLite` naming every version when none is."""
    for library in candidates:
        if is_safe(library.sqlite_version_info):
            return library
    raise UnsafeSQLite(
        "SQLite can corrupt the database here: "
        + ", ".join(f"{each.__name__} has {_dotted(each.sqlite_version_info)}" for each in candidates)
        + (", pysqlite3 is not installed" if len(candidates) < 2 else "")
        + f"; {_dotted(_FIXED)} or later is needed (pip install -U pysqlite3)."
    )


def load_library() -> Library:
    """The SQLite that Ondol uses; `UnsafeSQLite` when neither it nor `pysqlite3` is sound."""
    standard = cast(Library, sqlite3)
    if is_safe(standard.sqlite_version_info):
        return standard
    try:
        other = cast(Library, importlib.import_module("pysqlite3"))
    except ImportError:
        return choose_library([standard])
    return choose_library([standard, other])


def explain(error: Any, path: Path) -> StorageError:
    """An error of the library as one sentence. Codes: https://sqlite.org/rescode.html"""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return DiskFull(f"The disk that holds {path} is full: nothing was saved.")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return NotWritable(f"Another program holds {path}: nothing was saved.")
        case sqlite3.SQLITE_IOERR:
            return NotWritable(f"The disk failed while {path} was read or written: nothing was saved.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return NotWritable(f"{path} cannot be written: nothing was saved.")
        case sqlite3.SQLITE_CANTOPEN:
            return UnusableFolder(f"{path} cannot be opened.")
        case sqlite3.SQLITE_CORRUPT:
            return DamagedDatabase(f"{path} is damaged ({error}).")
        case sqlite3.SQLITE_NOTADB:
            return DamagedDatabase(f"{path} is not a database.")
        case _:
            return StorageError(f"{path} could not be used ({error}).")


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
