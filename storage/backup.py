"""Backups: one file with all that a database held at one moment, looked through before it gets its name.

SQLite's own backup reads one unchanging view, so others may write meanwhile; a copy of the file would miss
what is in the log. Everything here blocks.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from storage.errors import DamagedDatabase, StorageError, UnusableFolder
from storage.files import (
    BACKUPS_NAME,
    FILE_NAME,
    LOCK_NAME,
    SIDE_FILES,
    make_folder,
    reading_uri,
    revision_of,
    sync,
)
from storage.sqlite import Library, explain, load_library

UNFINISHED = ".part"
SIZE = ("page_count", "page_size")
KEPT = 3
"""So many of the backups that are made before migrations stay."""

Room: TypeAlias = Callable[[Path], int]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a database file holds, of which schema revision it is, and its size."""

    revision: str
    conversations: int
    messages: int
    nbytes: int


def free_bytes(folder: Path) -> int:
    """How much may still be written there."""
    return shutil.disk_usage(folder).free


def back_up_folder(folder: Path, target: Path, *, replace: bool = False, room: Room = free_bytes) -> Contents:
    """A backup of a data folder's database; a server may run. Raises the family of `StorageError`.

    replace: whether a file of that name may be replaced.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        raise StorageError(f"There are no conversations in {folder}.")
    if is_part_of(folder, target):
        raise StorageError(f"{target} is a file that Ondol itself uses: choose another name.")
    if target.is_dir() or (target.exists() and not replace):
        raise StorageError(f"{target} exists already: choose another name, or --force to replace a file.")
    return back_up(path, target, load_library(), room=room)


def is_part_of(folder: Path, file: Path) -> bool:
    """Whether the file is what a server works with in that data folder."""
    names = (FILE_NAME, LOCK_NAME, *(f"{FILE_NAME}{end}" for end in SIDE_FILES))
    return file.resolve() in {(folder / name).resolve() for name in names}


def back_up(source: Path, target: Path, library: Library, *, room: Room = free_bytes) -> Contents:
    """`target` appears whole, checked and on the disk, or not at all; one that is there is replaced."""
    uri = (
        f"{source.absolute().as_uri()}?mode=rw"  # with the locks that keep others from changing what is read
    )
    with checked_copy(source, uri, target, library, room=room) as (copy, contents):
        put_in_place(copy, target)
        return contents


@contextmanager
def checked_copy(
    source: Path, uri: str, target: Path, library: Library, *, room: Room = free_bytes
) -> Iterator[tuple[Path, Contents]]:
    """A copy under a passing name beside `target`, to be put in its place: it is deleted afterwards.

    Only its owner may read it. `uri` is how the source is opened.
    """
    copy = _empty_file_beside(target)
    try:
        _copy(source, uri, copy, library, room)
        yield copy, contents_of(copy, library, called=source)
    finally:
        for end in ("", *SIDE_FILES):
            copy.with_name(copy.name + end).unlink(missing_ok=True)


def contents_of(path: Path, library: Library, *, called: Path | None = None) -> Contents:
    """Looks through a whole database file that nobody writes to; errors name it as it is `called`.

    Raises `DamagedDatabase` and `SchemaTooNew`.
    """
    called = called or path
    revision = revision_of(path, library, check="integrity_check", called=called)
    if revision is None:
        raise DamagedDatabase(f"{called} is no database of Ondol: there is nothing in it.")
    try:
        with closing(library.connect(reading_uri(path), uri=True)) as connection:
            lost = connection.execute("PRAGMA foreign_key_check").fetchone()
            conversations, messages = connection.execute(
                "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM messages)"
            ).fetchone()
    except library.Error as error:
        raise explain(error, called) from error
    if lost is not None:
        raise DamagedDatabase(
            f"{called} is damaged (a row of {lost[0]} refers to a missing one of {lost[2]})."
        )
    return Contents(revision, conversations, messages, path.stat().st_size)


def put_in_place(file: Path, target: Path) -> None:
    """Gives a finished file its name, also after a power cut."""
    try:
        sync(file)
        os.replace(file, target)
        sync(target.parent)
    except OSError as error:
        raise UnusableFolder(f"{target} cannot be written ({error.strerror}).") from error


def back_up_before_migration(path: Path, revision: str, library: Library, *, room: Room = free_bytes) -> Path:
    """A backup in the folder `backups`, where the newest three stay. Raises `StorageError`."""
    folder = path.parent / BACKUPS_NAME
    make_folder(folder)
    for unfinished in unfinished_files(folder):
        unfinished.unlink()
    target = folder / f"schema-{revision}-{stamp()}.sqlite3"
    back_up(path, target, library, room=room)
    made = sorted(folder.glob("schema-*.sqlite3"), key=lambda each: each.stem.split("-", 2)[2])
    for old in made[:-KEPT]:
        old.unlink()
    return target


def unfinished_files(folder: Path) -> list[Path]:
    """What copies that were cut short have left there."""
    return sorted(folder.glob(f"*.sqlite3.*{UNFINISHED}*"))


def stamp() -> str:
    """This moment in UTC, for names of files: they sort by age."""
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")


def _empty_file_beside(target: Path) -> Path:
    try:
        made, name = tempfile.mkstemp(UNFINISHED, f"{target.name}.", target.parent)
    except OSError as error:
        raise UnusableFolder(f"{target} cannot be written ({error.strerror}).") from error
    os.close(made)
    return Path(name)


def _copy(source: Path, uri: str, copy: Path, library: Library, room: Room) -> None:
    try:
        with (
            closing(library.connect(uri, uri=True)) as reading,
            closing(library.connect(str(copy))) as writing,
        ):
            pages, page_size = (reading.execute(f"PRAGMA {name}").fetchone()[0] for name in SIZE)
            needed, free = pages * page_size, room(copy.parent)
            if free < needed:
                raise StorageError(
                    f"The copy of {source} needs {needed:,} bytes, and {free:,} are free in {copy.parent}."
                )
            writing.execute("PRAGMA synchronous=OFF")  # it is synced as a whole before it gets its name
            reading.backup(writing)
            writing.execute("PRAGMA journal_mode=DELETE")
    except library.Error as error:
        problem = explain(error, copy.parent)
        raise (explain(error, source) if isinstance(problem, DamagedDatabase) else problem) from error
