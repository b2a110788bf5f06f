"""Real server processes that start within a moment, so that they can be killed by the thousand.

Run as `python -m tests.reliability.servers LIBRARY`: a process without threads that has everything imported,
and forks a server for every line of its input.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START_S = 30
END_S = 30
WINDOW = 16_384
WORDS = ("ondol", "따뜻한", "floor", "아랫목", "warm")


def scripted(question: str) -> str:
    """What the double answers: some hundred bytes, Korean among them, other ones to each question."""
    chance = random.Random(question)
    return " ".join(chance.choices(WORDS, k=chance.randint(20, 60)))


@dataclass(frozen=True, slots=True)
class Task:
    """What a process is to do: serve a folder, or only open its database (`serve` False).

    `step_s` is how long the double takes for a token, `again_s` how long the server waits before it tries to
    save again.
    """

    folder: str
    control: str
    record: str = ""
    serve: bool = True
    step_s: float = 0.001
    again_s: float = 0.05
    synchronous: str = "FULL"


class ServerProcess:
    """One process. `url` is where it serves."""

    def __init__(self, ask: Callable[[str], str], task: Task) -> None:
        self._ask = ask
        self._out = Path(task.folder) / "out"
        self._out.write_text("")
        self.pid = int(ask(json.dumps(asdict(task))))
        self.url = self._address() if task.serve else ""

    @property
    def output(self) -> str:
        """All that it has said."""
        return self._out.read_text()

    def kill(self) -> None:
        """As a power button would."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL

    def end(self) -> None:
        """As a service manager would."""
        os.kill(self.pid, signal.SIGTERM)
        assert self.wait() == 0, self.output

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        deadline = time.monotonic() + END_S
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"it does not end: {self.output}"
            time.sleep(0.002)
        return code

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        answer = self._ask(f"poll {self.pid}")
        return None if answer == "runs" else int(answer)

    def _address(self) -> str:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.poll() is None:
            line = self.output.partition("\n")
            if line[1] and "Ondol is at " in line[0]:
                return line[0].partition("Ondol is at ")[2].split()[0]
            time.sleep(0.002)
        raise AssertionError(f"it did not start: {self.output}")


class Servers:
    """Starts servers. Usable from several threads."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lock = threading.Lock()

    def start(self, task: Task) -> ServerProcess:
        return ServerProcess(self._ask, task)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            print(line, file=self._process.stdin, flush=True)
            return self._process.stdout.readline().strip()


@contextmanager
def servers(library: Path) -> Iterator[Servers]:
    """A process that starts servers; what is left of them ends with it."""
    command, pipe = [sys.executable, "-m", "tests.reliability.servers", str(library)], subprocess.PIPE
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        try:
            yield Servers(process)
        finally:
            process.stdin.close()


class Pace:
    """Instead of a semaphore: every step takes its time."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s

    def acquire(self) -> None:
        time.sleep(self._step_s)


def main(library: str) -> None:
    import alembic.command  # noqa: F401
    import uvicorn.lifespan.on
    import uvicorn.protocols.websockets.websockets_sansio_impl  # noqa: F401

    import web.server  # noqa: F401
    from tests.web import serving  # noqa: F401

    running: dict[int, int | None] = {}
    for line in sys.stdin:
        if line.startswith("poll "):
            print(_poll(running, int(line.split()[1])), flush=True)
            continue
        task = Task(**json.loads(line))
        child = os.fork()
        if child == 0:
            _be_a_server(library, task)
        running[child] = None
        print(child, flush=True)
    for child in running:
        if _poll(running, child) == "runs":
            os.kill(child, signal.SIGKILL)


def _poll(running: dict[int, int | None], child: int) -> int | str:
    code = running.get(child)
    if code is None:
        ended, status = os.waitpid(child, os.WNOHANG)
        code = running[child] = os.waitstatus_to_exitcode(status) if ended else None
    return "runs" if code is None else code


def _be_a_server(library: str, task: Task) -> None:
    code = 1
    try:
        out = os.open(Path(task.folder) / "out", os.O_WRONLY | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(out, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        places = (str(Path(task.folder) / "data"), task.control, task.record)
        assert ctypes.CDLL(library).disk_begin(*map(os.fsencode, places)) == 0
        _sync_as(task.synchronous)
        code = _serve(task) if task.serve else _open(task)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(task: Task) -> int:
    from tests.inference.doubles import prepare_double, scripted_loader
    from tests.web.serving import SmallSettings
    from web.app import build_app
    from web.server import run_server

    folder = Path(task.folder)
    settings = SmallSettings(
        model="smollm2-135m",
        port=0,
        system_prompt="Be brief.",
        data_dir=folder / "data",
        models_dir=folder / "models",
    )
    build: Callable[..., Any] = partial(
        build_app,
        prepare_model=lambda *_: prepare_double(folder / "model", window=WINDOW),
        backend=scripted_loader(_reply, [], Pace(task.step_s)),  # type: ignore[arg-type]
        again_s=task.again_s,
    )
    run_server(settings, build)
    return 0


def _reply(prompt: str) -> str:
    return scripted(prompt.rpartition("user\n")[2].strip())


def _open(task: Task) -> int:
    from storage.database import Database

    Database.open(Path(task.folder) / "data").close()
    return 0


def _sync_as(level: str) -> None:
    """Every connection syncs otherwise than the product has it."""
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    if level == "FULL":
        return

    @event.listens_for(Pool, "checkout")
    def weaken(connection: Any, *_: object) -> None:
        connection.execute(f"PRAGMA synchronous={level}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1])
