"""The `ondol` command as its own process, with the model that people get by default."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-c", "from web.cli import main; main()", "serve")
# Threads that wait for each other sleep: on a shared machine those that spin keep the others from working.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}
START_S = 60
END_S = 30


class Ondol:
    """One server on one data folder; it can be ended and started again."""

    def __init__(self, folder: Path) -> None:
        self._data_dir = folder / "data"
        self._log = folder / "log"
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        """Start it and wait for its address. Started again, it has the same one."""
        options = ["--port", str(self._port), "--data-dir", str(self._data_dir)]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*COMMAND, *options],
                cwd=ROOT,
                env={**os.environ, **ENVIRONMENT},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        address = _address(self._process.stdout)
        if address is None:
            self.end()
            raise AssertionError(f"ondol did not start:\n{self._log.read_text()}")
        self.url = address
        self._port = int(address.rpartition(":")[2])

    def end(self) -> None:
        """End it as a service manager would, and wait."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError("ondol did not end when it was told to") from None
        finally:
            assert process.stdout is not None
            process.stdout.close()

    def restart(self) -> None:
        """End it and start it again."""
        self.end()
        self.start()


def _address(output: IO[str]) -> str | None:
    """The address in the first line of the output; None when there is none in time."""
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.append(output.readline()), daemon=True)
    reading.start()
    reading.join(START_S)
    found = re.match(r"Ondol is at (http://127\.0\.0\.1:\d+)", lines[0]) if lines else None
    return found.group(1) if found else None
