"""Folders inside the model cache: private while they are filled, renamed into place when they are whole.

A private folder is called `.fetch-<process id>-<Unix time>-<random>`. Nothing else ever has that name, so
whatever a killed process leaves behind cannot be taken for a model, and the next start removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PRIVATE = re.compile(r"\.fetch-(\d+)-(\d+)-\w+")
_CLOCK_SLACK_S = 60


@contextmanager
def private_folder(models_dir: Path) -> Iterator[Path]:
    """A new folder beside the finished ones, removed at the end with all that is still in it."""
    models_dir.mkdir(parents=True, exist_ok=True)
    prefix = f".fetch-{os.getpid()}-{int(time.time())}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=models_dir))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(whole: Path, target: Path) -> None:
    """Rename a finished folder to `target`, so that a reader sees all of it or nothing.

    What stood at `target` before is moved beside `whole`, into the private folder, and goes with it.
    """
    for file in whole.iterdir():
        _sync(file)
    if target.exists():
        target.rename(whole.with_name("replaced"))
    whole.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    # Windows cannot open a folder, and syncs no file that is open for reading only.
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_stale(models_dir: Path) -> None:
    """Delete private folders whose process has ended."""
    for folder in models_dir.glob(".fetch-*"):
        match = _PRIVATE.fullmatch(folder.name)
        if match and not _is_alive(int(match[1]), since=int(match[2])):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int, since: int) -> bool:
    """Whether the process that made a folder at `since` still runs; a later one may have got its number."""
    import psutil

    try:
        started = float(psutil.Process(pid).create_time())
    except (psutil.NoSuchProcess, OverflowError, ValueError):
        return False
    except psutil.Error:
        return True
    return started <= since + _CLOCK_SLACK_S


def folder_bytes(folder: Path) -> int:
    """Bytes on disk of all files below `folder`, which may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += _bytes_on_disk(os.lstat(os.path.join(parent, name)))
    return total


def _bytes_on_disk(stat: os.stat_result) -> int:
    # A file may be given its final length before its content arrives; POSIX counts blocks of 512 bytes.
    blocks: int | None = getattr(stat, "st_blocks", None)
    return stat.st_size if blocks is None else min(stat.st_size, 512 * blocks)
