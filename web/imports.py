"""The server's imports: an uploaded file, a process that reads it, and what became of it. One at a time.

Event loop; one thread waits for the process. Files lie in a folder of their own in the data folder under
names that the server makes, and are deleted when their import ends, or when the server starts again.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec
from starlette.concurrency import run_in_threadpool

from storage.errors import ImportRefused
from storage.transfer.limits import MAX_FILE_BYTES, MIB
from web.import_process import Counted, Event, Failed, Item

ROOT = Path(__file__).resolve().parent.parent
WRITTEN_AT_ONCE = 1 * MIB
DIED = "The import ended unexpectedly; what it had taken by then is kept."


@dataclass(slots=True)
class ImportJob:
    """One import, for a person. `items` grows while it is `running`; when it is not any more, its file is
    gone.
    """

    id: str
    person: str
    state: Literal["running", "done", "cancelled", "failed"] = "running"
    total: int | None = None
    why: str | None = None
    items: list[Item] = field(default_factory=list)
    is_cancelled: bool = False
    process: subprocess.Popen[bytes] | None = None

    def take(self, event: Event) -> None:
        """Note what the process says."""
        match event:
            case Counted():
                self.total = event.total
            case Item():
                self.items.append(event)
            case Failed():
                self.why = event.why


class ImportDesk:
    """Takes files in."""

    def __init__(
        self, folder: Path, database_file: Path, ended: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """For the event loop that runs; `ended` is awaited there when an import has ended."""
        self._loop = asyncio.get_running_loop()
        self._folder = folder
        self._database_file = database_file
        self._ended = ended
        self._uploading = False
        self._thread: threading.Thread | None = None
        self.job: ImportJob | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a file is being taken in."""
        return self._uploading or (self.job is not None and self.job.state == "running")

    def clear(self) -> None:
        """Delete what an earlier process left behind. Only for start-up; blocks."""
        shutil.rmtree(self._folder, ignore_errors=True)

    async def take(self, chunks: AsyncIterator[bytes], person: str) -> ImportJob:
        """Keep a person's file as it arrives, and begin to import it. Raises `ImportRefused`.

        The caller makes sure that the desk is not busy.
        """
        self._uploading = True
        path = self._folder / uuid4().hex
        try:
            await self._receive(path, chunks)
            self.job = ImportJob(uuid4().hex, person)
            self._thread = threading.Thread(target=self._run, args=(self.job, path), name="import")
            self._thread.start()
            return self.job
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            self._uploading = False

    def cancel(self, job: ImportJob) -> None:
        """End an import; what it has taken stays."""
        job.is_cancelled = True
        if job.process is not None:
            job.process.terminate()

    def close(self) -> None:
        """End the import and wait for that. Blocks."""
        if self.job is not None:
            self.cancel(self.job)
        if self._thread is not None:
            self._thread.join()

    async def _receive(self, path: Path, chunks: AsyncIterator[bytes]) -> None:
        size, waiting = 0, bytearray()
        try:
            await run_in_threadpool(self._make, path)
            async for chunk in chunks:
                size += len(chunk)
                if size > MAX_FILE_BYTES:
                    raise ImportRefused(too_large(size))
                waiting += chunk
                if len(waiting) >= WRITTEN_AT_ONCE:
                    await run_in_threadpool(_append, path, bytes(waiting))
                    waiting.clear()
            await run_in_threadpool(_append, path, bytes(waiting))
        except OSError as error:
            raise ImportRefused(f"The file cannot be kept ({error.strerror}).") from None

    def _make(self, path: Path) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)

    def _run(self, job: ImportJob, path: Path) -> None:
        """In the import's thread: from the start of the process to its end."""
        module = [sys.executable, "-m", "web.import_process"]
        command = [*module, str(path), str(self._database_file), job.person]
        try:
            with subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            ) as process:
                job.process = process
                if job.is_cancelled:
                    process.terminate()
                assert process.stdout is not None
                for line in process.stdout:
                    job.take(msgspec.json.decode(line, type=Event))
            if process.returncode and not job.is_cancelled:
                job.why = DIED
        except (OSError, msgspec.DecodeError):
            job.why = DIED
        finally:
            path.unlink(missing_ok=True)
            job.process = None
            job.state = "cancelled" if job.is_cancelled else "failed" if job.why else "done"
            telling = self._ended()
            try:
                asyncio.run_coroutine_threadsafe(telling, self._loop)
            except RuntimeError:  # the loop has closed by now
                telling.close()


def too_large(size: int) -> str:
    """Why a file of so many bytes is not taken."""
    return f"The file has {size:,} bytes; at most {MAX_FILE_BYTES:,} are taken at once."


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)
