"""The data folder and the database file: made private, and looked at before anything is written."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from storage.errors import DamagedDatabase, DiskFull, NotWritable, SchemaTooNew, UnusableFolder
from storage.migrations import REVISIONS
from storage.sqlite import Library, explain

FILE_NAME = "ondol.sqlite3"
LOCK_NAME = "ondol.lock"
BACKUPS_NAME = "backups"
SIDE_FILES = ("-wal", "-shm", "-journal")
FileCheck: TypeAlias = Literal["quick_check", "integrity_check"] | None
ROOM_BYTES = 2**20
"""What a message and its reply surely have room in."""

SEARCH_INDEX = "search_index"
"""Stands in what SQLite says where the insides of the full-text index do not agree."""

OURS = {"alembic_version", "conversations", "messages"}


def make_folder(folder: Path) -> None:
    """The folder exists and can be written afterwards; only its owner may enter one made here."""
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
            sync(folder.parent)
    except OSError as error:
        raise UnusableFolder(f"The data folder {folder} cannot be made ({error.strerror}).") from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise UnusableFolder(f"The data folder {folder} cannot be written.")


@contextmanager
def sole_user(folder: Path) -> Iterator[None]:
    """Holds the folder for one server: a second would take the first one's running replies for leftovers.

    The hold ends with the process, however that ends. Raises `UnusableFolder` where another process has it.
    """
    make_folder(folder)
    with (folder / LOCK_NAME).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UnusableFolder(f"Another Ondol already uses the data folder {folder}.") from None
        yield


def is_in_use(folder: Path) -> bool:
    """Whether a server has the folder. Nothing is made or changed."""
    try:
        with (folder / LOCK_NAME).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise UnusableFolder(f"The data folder {folder} cannot be read ({error.strerror}).") from error
    return False


def sync(path: Path) -> None:
    """What was written to this file, or to the names in this folder, survives a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_writing(folder: Path) -> None:
    """Writes `ROOM_BYTES` to the disk and lets them go. Raises `NotWritable`."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"The disk that holds {folder} is full: nothing was saved.") from error
        raise NotWritable(f"{folder} cannot be written ({error.strerror}): nothing was saved.") from error


def make_private_file(path: Path) -> None:
    """The file exists and only its owner may read it; SQLite gives its side files the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise UnusableFolder(f"{path} cannot be opened for writing ({error.strerror}).") from error


def revision_of(
    path: Path, library: Library, *, check: FileCheck = "quick_check", called: Path | None = None
) -> str | None:
    """The schema revision of the database; None for one without tables. Neither it nor its log is changed.

    check: `integrity_check` compares indexes with their tables too, which takes longer. None checks nothing.
    called: what errors name instead of the path.

    Raises `SchemaTooNew` for a revision that this version does not know, and `DamagedDatabase`.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return None
    called = called or path
    try:
        with closing(library.connect(reading_uri(path), uri=True)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if not tables:
                return None
            if not tables >= OURS:
                raise DamagedDatabase(f"{called} is a database of another program.")
            revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            faults = connection.execute(f"PRAGMA {check}(1)").fetchone()[0] if check else "ok"
    except library.Error as error:
        raise explain(error, called) from error
    return _known(called, revision, faults)


def _known(path: Path, revision: tuple[str] | None, faults: str) -> str:
    if revision is not None and revision[0] not in REVISIONS:
        raise SchemaTooNew(
            f"{path} was written by a newer Ondol (schema {revision[0]}, here {REVISIONS[-1]}): update it."
        )
    if SEARCH_INDEX in faults:
        raise DamagedDatabase(
            f"The search index in {path} is damaged ({faults}): `ondol check --repair` makes it anew."
        )
    if faults != "ok" or revision is None:
        raise DamagedDatabase(f"{path} is damaged ({faults if revision else 'it has no schema revision'}).")
    return revision[0]


def reading_uri(path: Path) -> str:
    """Opens for reading only, and leaves nothing behind where no side file shows a crash or another program.

    A rollback journal is only there when the very first write was cut short; SQLite has to undo that first.
    """
    side_files = [path.with_name(path.name + end).exists() for end in SIDE_FILES]
    if side_files[2]:
        return f"{path.absolute().as_uri()}?mode=rw"
    return f"{path.absolute().as_uri()}?mode=ro" + ("" if any(side_files) else "&immutable=1")
