"""Whether anything can be saved now, and how one learns that it can again. Event loop.

A writer that fails says so; from then on a useless write is tried every few seconds until one succeeds.
Commands are tried meanwhile too: each fails by itself, and is told so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from storage.backup import free_bytes
from storage.database import Database
from storage.errors import DiskFull, NotWritable, StorageError

logger = logging.getLogger(__name__)

AGAIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Why nothing can be saved now. There are `free` bytes in `folder`: the one is None where it cannot be
    told, the other where guests would be told too. `replies` have ended and are kept in memory alone.
    """

    is_full: bool
    why: str
    folder: Path | None
    free: int | None
    replies: int


class Saving:
    """Knows whether the database can be written."""

    def __init__(
        self,
        database: Database,
        announce: Callable[[], None],
        again_s: float = AGAIN_S,
        *,
        tells_folder: bool = True,
    ) -> None:
        """`announce` is called at every change of `unsaved`."""
        self._database = database
        self._announce = announce
        self._tells_folder = tells_folder
        self._again_s = again_s
        self._error: NotWritable | None = None
        self._free: int | None = None
        self._replies = 0
        self._owed: list[Callable[[], Awaitable[None]]] = []
        self._works = asyncio.Event()
        self._works.set()
        self._trying: asyncio.Task[None] | None = None
        self._closed = False
        loop = asyncio.get_running_loop()

        def failed(error: NotWritable) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have closed by now
                loop.call_soon_threadsafe(self.failed, error)

        database.on_not_writable = failed

    @property
    def unsaved(self) -> Unsaved | None:
        """None while everything can be saved, as far as is known."""
        if self._error is None:
            return None
        folder = self._database.path.parent if self._tells_folder else None
        return Unsaved(isinstance(self._error, DiskFull), str(self._error), folder, self._free, self._replies)

    def failed(self, error: NotWritable) -> None:
        """A writer has failed."""
        if self._trying is not None or self._closed:
            return
        logger.error("nothing can be saved: %s", error)
        self._error, self._free = error, self._free_bytes()
        self._works.clear()
        self._trying = asyncio.create_task(self._try_again())
        self._announce()

    async def until_it_works(self) -> None:
        """Wait until something could be saved again, or the server ends."""
        await self._works.wait()

    def owe(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have something done as soon as it can be saved. It may raise `StorageError`, and is tried again."""
        self._owed.append(work)

    @contextlib.contextmanager
    def keeping_reply(self) -> Iterator[None]:
        """A reply has ended and is in memory alone meanwhile."""
        self._replies += 1
        self._announce()
        try:
            yield
        finally:
            self._replies -= 1
            self._announce()

    def close(self) -> None:
        """Whoever waits tries a last time."""
        self._closed = True
        if self._trying is not None:
            self._trying.cancel()
        self._works.set()

    async def _try_again(self) -> None:
        while self._error is not None:
            await asyncio.sleep(self._again_s)
            try:
                await self._save_owed()
                self._error = None
            except NotWritable as error:
                self._note(error)
            except StorageError as error:
                logger.error("nothing can be saved: %s", error)
        logger.warning("everything can be saved again")
        self._trying = None
        self._works.set()
        self._announce()

    async def _save_owed(self) -> None:
        await run_in_threadpool(self._database.try_writing)
        while self._owed:
            await self._owed[0]()
            self._owed.pop(0)

    def _note(self, error: NotWritable) -> None:
        before, self._error, self._free = self.unsaved, error, self._free_bytes()
        if self.unsaved != before:
            self._announce()

    def _free_bytes(self) -> int | None:
        try:
            return free_bytes(self._database.path.parent)
        except OSError:
            return None
