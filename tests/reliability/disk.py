"""A disk that can be recorded, filled and broken, under a process that knows nothing of it: see `disk.c`."""

from __future__ import annotations

import ctypes
import errno
import mmap
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import pytest

SOURCE = Path(__file__).with_suffix(".c")
NAME = "libondol_test_disk.so"


def build_library(folder: Path) -> Path:
    """The library for LD_PRELOAD, compiled into a folder. Elsewhere than on Linux the test is skipped."""
    if sys.platform != "linux":
        pytest.skip("calls are intercepted on Linux alone")
    library = folder / NAME
    flags = ["-O2", "-Wall", "-Werror", "-D_LARGEFILE64_SOURCE", "-shared", "-fPIC"]
    command = ["gcc", *flags, "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return library


class Control(ctypes.Structure):
    """`struct control` of `disk.c`."""

    _fields_ = [(name, ctypes.c_int64) for name in ("calls", "countdown", "error", "lasts", "room", "failed")]


class Disk:
    """The disk of one server; it stays as it is when that is ended and started again."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(mmap.PAGESIZE))
        self.file = file
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), mmap.PAGESIZE)
        self._control = Control.from_buffer(self._memory)
        self.work()

    def __enter__(self) -> Disk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._control
        self._memory.close()

    @property
    def calls(self) -> int:
        """Writes, truncations and syncs so far."""
        return int(self._control.calls)

    @property
    def failed(self) -> int:
        """How many calls were failed since something was broken."""
        return int(self._control.failed)

    def work(self) -> None:
        """From now on it works."""
        self._control.countdown, self._control.room = 0, -1

    def fail(self, call: int, *, error: int = errno.EIO, lasts: bool) -> None:
        """The call with this number from now on fails, from 1; where it `lasts`, all that follow fail too."""
        self._control.failed = 0
        self._control.error, self._control.lasts = error, lasts
        self._control.countdown = call

    def fill(self, room: int = 0) -> None:
        """From now on files may grow by so many bytes together."""
        self._control.failed = 0
        self._control.room = room
