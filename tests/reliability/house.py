"""A server as `ondol serve` starts it, in a process of its own, whose double does what its questions ask for.

"write NAME 9" is answered with nine words that begin with that name, "formulas 9" with nine formulas, and
"stall 5 NAME" by holding the interpreter for five seconds.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import httpx2
import psutil
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from websockets import Origin
from websockets.sync.client import connect

from tests.inference.doubles import prepare_double, scripted_loader
from tests.web.client import WAIT_S, Client
from tests.web.serving import SmallSettings
from web.app import build_app
from web.server import run_server
from web.waiting import Patience

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = "/debug/objects"
FEW_ARENAS = {**os.environ, "MALLOC_ARENA_MAX": "2"}
"""Else glibc keeps a heap for every thread, and its slow growth looks like a leak."""
PATIENCE_S = 4 * WAIT_S
"""Longer than one server on a quiet machine needs: these tests run many beside each other."""


@dataclass(frozen=True)
class Plan:
    """How the server is to be. Each step of its double takes `step_s`; `engine` changes the engine."""

    folder: str
    step_s: float = 0.0
    window: int = 2_048
    engine: Mapping[str, Any] = field(default_factory=dict)
    patience: Mapping[str, float] = field(default_factory=dict)


class House:
    """That server, seen from outside. Leaving its `with` kills it if it has not ended.

    `kept` are conversations that it had from the start.
    """

    kept: Sequence[str] = ()

    def __init__(self, folder: Path, **plan: Any) -> None:
        told = json.dumps(asdict(Plan(str(folder), **plan)))
        self.data_dir = folder / "data"
        self._pages = ExitStack()
        self._log = (folder / "log").open("w+")
        command = [sys.executable, "-m", "tests.reliability.house", told]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=FEW_ARENAS, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self.process.stdout is not None
        found = re.match(r"Ondol is at (http://127\.0\.0\.1:(\d+))", self.process.stdout.readline())
        assert found is not None, self.log
        self.url, self.port = found[1], int(found[2])
        httpx2.get(self.url, timeout=PATIENCE_S)  # the model is loaded after the first answer

    def __enter__(self) -> House:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self._pages.close()
        with self.process:
            self._log.close()

    @property
    def log(self) -> str:
        """What it wrote to stderr."""
        self._log.seek(0)
        return self._log.read()

    @property
    def seen(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    @property
    def rss(self) -> int:
        """Bytes of memory that it occupies."""
        return cast(int, self.seen.memory_info().rss)

    def objects(self) -> dict[str, int]:
        """How many objects of each type it has that came after its start."""
        return cast(dict[str, int], httpx2.get(self.url + OBJECTS, timeout=PATIENCE_S).json())

    def client(self, kind: type[socket.socket] = socket.socket) -> Client:
        """A page, once the model is ready; `kind` is how it reads."""
        line = kind()
        line.connect(("127.0.0.1", self.port))
        connection = connect(
            f"ws://127.0.0.1:{self.port}/ws",
            sock=line,
            origin=Origin(self.url),
            max_size=2**26,
            ping_interval=None,  # as browsers do it
        )
        client = Client(self._pages.enter_context(connection))
        client.wait_s = PATIENCE_S
        client.wait_for("status", phase="ready")
        return client

    def end(self, within_s: float = WAIT_S) -> int:
        """End it as a service manager would; its exit code."""
        self.process.terminate()
        return self.process.wait(within_s)


class Steady:
    """A pace: every step takes so long."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s

    def acquire(self) -> None:
        time.sleep(self._step_s)


@lru_cache(maxsize=64)
def answer(question: str) -> str:
    """What the double says. It is asked again for every token."""
    match question.split():
        case ["write", name, count]:
            return " ".join(f"{name}.{number}" for number in range(int(count)))
        case ["formulas", count]:
            return " ".join(f"$x^{number}$" for number in range(int(count)))
        case ["stall", seconds, _]:
            ctypes.PyDLL(None).usleep(int(float(seconds) * 1e6))
            return "over"
        case _:
            return question


def reply(prompt: str) -> str:
    return answer(prompt.rpartition("user\n")[2].strip())


async def objects(request: Request) -> JSONResponse:
    gc.collect()
    return JSONResponse(Counter(type(each).__qualname__ for each in gc.get_objects()))


def main(plan: Plan) -> None:
    folder = Path(plan.folder)

    def prepare(*_: object) -> Any:
        return prepare_double(folder / "model", window=plan.window)

    def build(*args: Any, **options: Any) -> Starlette:
        pace = cast(threading.Semaphore, Steady(plan.step_s))
        app = build_app(*args, **options, prepare_model=prepare, backend=scripted_loader(reply, [], pace))
        app.router.routes.insert(0, Route(OBJECTS, objects))
        return app

    prepare()
    settings = SmallSettings(
        model="smollm2-135m",
        port=0,
        system_prompt="Be brief.",
        data_dir=folder / "data",
        models_dir=folder / "models",
        changes=plan.engine,
    )
    run_server(settings, build, Patience(**plan.patience))  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
