"""A process that opens old databases in children, which die at the step that they are told.

Run as `python -m tests.storage.migrator`. Each line of its input is `FOLDER STEP`: a child opens the database
of that folder and is killed just before that step, counted from 0; of a line `FOLDER` the child lives. Each
is answered with the number of steps that were begun. A step is a statement, a commit, or a call that changes
files. Children are forked from a process without threads that has everything imported: a start of its own
would take each a second.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import alembic.command  # noqa: F401

import storage.sqlite
from storage.database import Database

STEPS = {"execute", "executemany", "commit", "backup", "open", "replace", "unlink", "mkdir", "fsync"}


def open_until(folder: Path, last: int | None, answers: int) -> None:
    """Opens and closes the database; writes a byte for each step before it is taken."""

    def before(frame: FrameType, event: str, called: Any) -> None:
        nonlocal last
        if event != "c_call" or called.__name__ not in STEPS:
            return
        if last == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        last = None if last is None else last - 1
        os.write(answers, b".")

    sys.setprofile(before)
    with closing(Database.open(folder)):
        sys.setprofile(None)


def main() -> None:
    storage.sqlite.load_library()
    for line in sys.stdin:
        folder, _, step = line.rstrip("\n").partition("\t")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            open_until(Path(folder), int(step) if step else None, writing)
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as answers:
            steps = len(answers.read())
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        print(steps if killed == bool(step) else f"status {status}", flush=True)


if __name__ == "__main__":
    main()
