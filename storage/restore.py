"""Restoring a backup: a data folder's database is replaced as a whole, and what it was is kept beside it.

Everything here blocks.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from storage.backup import (
    Contents,
    Room,
    checked_copy,
    contents_of,
    free_bytes,
    is_part_of,
    put_in_place,
    stamp,
)
from storage.errors import DamagedDatabase, StorageError, UnusableFolder
from storage.files import (
    BACKUPS_NAME,
    FILE_NAME,
    SIDE_FILES,
    is_in_use,
    make_folder,
    reading_uri,
    sole_user,
    sync,
)
from storage.sqlite import Library, explain, load_library


@dataclass(frozen=True, slots=True)
class Restored:
    """What is there now, how many devices it lets in, and where what was there before lies: None where
    nothing was.
    """

    contents: Contents
    devices: int
    kept: Path | None


def restore(
    file: Path, folder: Path, *, room: Room = free_bytes, link: Callable[[Path, Path], None] = os.link
) -> Restored:
    """Puts a backup in the place of the folder's database, all of it or nothing.

    Raises `SchemaTooNew` and `DamagedDatabase` for the file, `UnusableFolder` where a server uses the folder,
    and the rest of the family of `StorageError`. An older schema is migrated by the next start.
    """
    library = load_library()
    if not file.is_file():
        raise StorageError(f"There is no file {file}.")
    if is_part_of(folder, file):
        raise StorageError(f"{file} is the database of the data folder itself.")
    contents_of(file, library)
    path = folder / FILE_NAME
    with (
        without_server(folder),
        checked_copy(file, reading_uri(file), path, library, room=room) as (copy, now),
    ):
        devices = _devices(copy, library)
        kept = _set_aside(path, library, link)
        put_in_place(copy, path)
    return Restored(now, devices, kept)


@contextmanager
def without_server(folder: Path) -> Iterator[None]:
    """No server can start meanwhile. Raises `UnusableFolder` where one runs."""
    if is_in_use(folder):
        raise UnusableFolder(f"A server uses the data folder {folder}: end it first.")
    with sole_user(folder):
        yield


def _devices(path: Path, library: Library) -> int:
    with closing(library.connect(reading_uri(path), uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'devices'").fetchone():
            return 0
        query = "SELECT count(*) FROM devices WHERE revoked_at IS NULL"
        return int(connection.execute(query).fetchone()[0])


def _set_aside(path: Path, library: Library, link: Callable[[Path, Path], None]) -> Path | None:
    """Gives the present database a second name, and leaves no log that the next could take for its own."""
    if path.is_file():
        _fold_log(path, library)
    logs = [end for end in SIDE_FILES if _beside(path, end).exists()]
    if not path.exists() and not logs:
        return None
    kept = path.parent / BACKUPS_NAME / f"replaced-{stamp()}.sqlite3"
    make_folder(kept.parent)
    try:
        for end in logs:  # those of a damaged file: whoever rescues it needs them
            os.replace(_beside(path, end), _beside(kept, end))
        if path.exists():
            _name_again(path, kept, link)
        sync(kept.parent)
    except OSError as error:
        raise UnusableFolder(f"{path} cannot be kept as {kept} ({error.strerror}).") from error
    return kept


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _fold_log(path: Path, library: Library) -> None:
    """The file has everything afterwards, unless it is damaged. Raises `StorageError` where it is in use."""
    try:
        with closing(library.connect(str(path))) as connection:
            connection.execute("PRAGMA busy_timeout=500")
            connection.execute("PRAGMA journal_mode=DELETE")
    except library.Error as error:
        problem = explain(error, path)
        if not isinstance(problem, DamagedDatabase):
            raise problem from error


def _name_again(path: Path, kept: Path, link: Callable[[Path, Path], None]) -> None:
    try:
        link(path, kept)
    except OSError:  # not every file system can
        shutil.copyfile(path, kept)
        kept.chmod(0o600)
        sync(kept)
