"""The database file, its connections and their transactions. Usable from any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from storage.engine import make_engine
from storage.errors import NotWritable, StorageError
from storage.files import FILE_NAME, make_folder, make_private_file, revision_of, try_writing
from storage.migrate import migrate
from storage.migrations import REVISIONS
from storage.sqlite import Library, explain, load_library

READERS = 4
SNAPSHOTS = 2


class Database:
    """One SQLite file with three engines: readers that cannot write, long readings, and a single writer.

    A writer that shared its engine with readers would make them wait behind it.
    """

    def __init__(self, path: Path, library: Library) -> None:
        """For a file that is known to be sound; `open` is the way in."""
        self.path = path
        self.on_not_writable: Callable[[NotWritable], None] = lambda error: None
        """Called in the thread of a writer that fails, before it is told itself."""
        self._reader = make_engine(path, library, begin="BEGIN", pool_size=READERS, query_only=True)
        self._writer = make_engine(path, library, begin="BEGIN IMMEDIATE", pool_size=1)
        self._snapshots = make_engine(path, library, begin="BEGIN", pool_size=SNAPSHOTS, query_only=True)
        self._closed = False

    @classmethod
    def open(cls, folder: Path) -> Database:
        """The database of this data folder, made or migrated where needed.

        Raises the family of `StorageError`. A damaged or newer file is refused before anything is written.
        """
        library = load_library()
        make_folder(folder)
        path = folder / FILE_NAME
        revision = revision_of(path, library)
        make_private_file(path)
        if revision != REVISIONS[-1]:
            migrate(path, library, revision)
        database = cls(path, library)
        try:
            with database.write():
                return database
        except StorageError:
            database.close()
            raise

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session over one unchanging view of the data. Writing in it raises `StorageError`."""
        with self._session(self._reader) as session:
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """As `read`, for what takes long: it keeps no other reader waiting."""
        with self._session(self._snapshots) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that no other writer runs beside: committed at the end, undone by any exception."""
        try:
            with self._session(self._writer) as session:
                yield session
        except NotWritable as error:
            self.on_not_writable(error)
            raise

    def try_writing(self) -> None:
        """Writes to the file and beside it, and changes nothing. Raises `NotWritable`."""
        try_writing(self.path.parent)
        with self.write() as session:
            session.execute(text("PRAGMA user_version = 0"))  # which it is

    def close(self) -> None:
        """Ends all connections; the log is then part of the file. May be called again."""
        self._closed = True
        self._reader.dispose()
        self._snapshots.dispose()
        self._writer.dispose()

    @contextmanager
    def _session(self, engine: Engine) -> Iterator[Session]:
        if self._closed:
            raise StorageError(f"{self.path.name} has been closed.")
        try:
            with Session(engine, expire_on_commit=False) as session, session.begin():
                session.connection()
                yield session
        except DBAPIError as error:
            raise explain(error.orig, Path(self.path.name)) from error  # where it lies is no visitor's matter
        except PoolTimeout as error:
            raise StorageError(f"{self.path.name} is too busy: nothing was saved.") from error
