"""A process whose children do one thing with a data folder and die at the step that they are told.

Run as `python -m tests.storage.dying`. Each line of its input is `WHAT FOLDER STEP`, parted by tabs: a child
opens the folder's database (`open`) or restores the file `backup.sqlite3` that lies in it (`restore`), and is
killed just before that step, counted from 0; without a step it lives. Each is answered with the number of
steps that were begun. A step is a statement, a commit, or a call that changes files. Children are forked from
a process without threads that has everything imported: a start of its own would take each a second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[2]
STEPS = {
    *("execute", "executemany", "commit", "backup", "close"),
    *("open", "link", "replace", "unlink", "mkdir", "fsync", "flock"),
}

DoUntil: TypeAlias = Callable[[str, Path, int | None], int]
"""What, in which folder, and before which step it dies; how many steps it took."""


@contextmanager
def dying_children() -> Iterator[DoUntil]:
    """The process, for tests."""
    command, pipe = [sys.executable, "-m", "tests.storage.dying"], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asking, answers = process.stdin, process.stdout

        def do_until(what: str, folder: Path, step: int | None) -> int:
            print(what, folder, "" if step is None else step, sep="\t", file=asking, flush=True)
            return int(answers.readline())

        try:
            yield do_until
        finally:
            asking.close()


def die_before(last: int | None, answers: int) -> None:
    """From now on each step is announced by a byte, and before the last one the process dies."""

    def before(frame: FrameType, event: str, called: Any) -> None:
        nonlocal last
        if event != "c_call" or called.__name__ not in STEPS:
            return
        if last == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        last = None if last is None else last - 1
        os.write(answers, b".")

    sys.setprofile(before)


def main() -> None:
    import alembic.command  # noqa: F401

    from storage.database import Database
    from storage.restore import restore

    for line in sys.stdin:
        what, folder, step = line.rstrip("\n").split("\t")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            die_before(int(step) if step else None, writing)
            if what == "open":
                Database.open(Path(folder)).close()
            else:
                restore(Path(folder, "backup.sqlite3"), Path(folder))
            sys.setprofile(None)
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as answers:
            steps = len(answers.read())
        _, status = os.waitpid(child, 0)
        print(steps if os.WIFSIGNALED(status) == bool(step) else f"status {status}", flush=True)


if __name__ == "__main__":
    main()
