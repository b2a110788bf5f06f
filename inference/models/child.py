"""Child processes that fetch files: watched while they run, and certain to have ended afterwards.

A process can be stopped at any moment, which a thread inside a library that waits for the network cannot.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from inference.models.cancellation import raise_if_cancelled

_POLL_S = 0.2
_TERMINATE_S = 5.0


def run_child(
    command: Sequence[str],
    *,
    scratch: Path,
    log: Path,
    report: Callable[[], None],
    cancelled: threading.Event,
    environment: Mapping[str, str],
) -> int:
    """The child's exit code. It is stopped when `cancelled` is set or this call ends in any other way.

    scratch: its working folder and its place for temporary files. log: takes all that it says. report: called
    a few times a second from this thread. environment: added to this process's own.
    """
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    with log.open("wb") as output:
        # The working folder is fresh and empty: Python looks for modules there before anywhere else.
        process = subprocess.Popen(
            command,
            cwd=scratch,
            env={**os.environ, **temporary, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while process.poll() is None:
            report()
            if cancelled.wait(_POLL_S):
                raise_if_cancelled(cancelled)
        report()
        return process.returncode
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
