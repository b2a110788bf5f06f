from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storage.errors import DamagedDatabase, DiskFull, NotWritable, StorageError, UnsafeSQLite, UnusableFolder
from storage.sqlite import choose_library, explain, is_safe, load_library


def a_library(name: str, *version: int) -> Any:
    return SimpleNamespace(__name__=name, sqlite_version_info=version)


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), False),
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 44, 7), True),
        ((3, 45, 3), False),
        ((3, 49, 9), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 0), False),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 53, 4), True),
        ((4, 0, 0), True),
    ],
)
def test_only_releases_without_the_wal_reset_bug_are_safe(version: tuple[int, ...], safe: bool) -> None:
    assert is_safe(version) is safe


def test_the_standard_library_is_preferred_when_it_is_safe() -> None:
    standard = a_library("sqlite3", 3, 51, 3)
    assert choose_library([standard, a_library("pysqlite3", 3, 53, 4)]) is standard


def test_the_other_library_is_taken_when_the_standard_one_is_unsafe() -> None:
    other = a_library("pysqlite3", 3, 53, 4)
    assert choose_library([a_library("sqlite3", 3, 40, 1), other]) is other


def test_two_unsafe_libraries_are_refused_with_both_versions() -> None:
    with pytest.raises(UnsafeSQLite, match=r"sqlite3 has 3\.40\.1, pysqlite3 has 3\.51\.1;"):
        choose_library([a_library("sqlite3", 3, 40, 1), a_library("pysqlite3", 3, 51, 1)])


def test_an_unsafe_library_alone_is_refused_with_the_remedy() -> None:
    with pytest.raises(UnsafeSQLite, match=r"pysqlite3 is not installed; .*pip install"):
        choose_library([a_library("sqlite3", 3, 40, 1)])


def test_the_library_in_use_is_safe() -> None:
    assert is_safe(load_library().sqlite_version_info)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_FULL, DiskFull, "is full"),
        (sqlite3.SQLITE_IOERR_WRITE, NotWritable, "The disk failed"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, NotWritable, "Another program"),
        (sqlite3.SQLITE_READONLY, NotWritable, "cannot be written"),
        (sqlite3.SQLITE_CANTOPEN, UnusableFolder, "cannot be opened"),
        (sqlite3.SQLITE_CORRUPT, DamagedDatabase, "is damaged"),
        (sqlite3.SQLITE_NOTADB, DamagedDatabase, "is not a database"),
        (sqlite3.SQLITE_MISUSE, StorageError, "could not be used"),
    ],
)
def test_every_error_of_the_library_becomes_one_sentence(code: int, kind: type, words: str) -> None:
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorcode = code
    explained = explain(error, Path("/home/me/ondol.sqlite3"))
    assert type(explained) is kind
    assert words in str(explained)
    assert "/home/me/ondol.sqlite3" in str(explained)
