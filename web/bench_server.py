"""The server that `ondol bench --web` measures, in a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from inference.backends.base import Backend
from inference.config import EngineConfig
from inference.errors import ModelUnavailable
from inference.model_loader import LoadBackend, Prepare
from inference.models.prepared import PreparedModel, Progress
from storage.database import Database
from web.access import loopback_hosts
from web.app import build_app
from web.server import Server, listen, settled
from web.settings import Settings

START_S = 120
SPAWNING = multiprocessing.get_context("spawn")


@contextmanager
def server(
    settings: Settings, data_dir: Path, prepare: Prepare | None, backend: LoadBackend
) -> Iterator[tuple[str, int]]:
    """The address of a server in a process of its own, and that process's id."""
    ours, theirs = SPAWNING.Pipe()
    process = SPAWNING.Process(target=_serve, args=(settings, data_dir, prepare, backend, theirs))
    process.start()
    try:
        if not ours.poll(START_S):
            raise ModelUnavailable("The server that was to be measured did not start.")
        yield f"http://127.0.0.1:{ours.recv()}", process.pid or 0
    finally:
        process.terminate()
        process.join()


def _serve(
    settings: Settings, data_dir: Path, prepare: Prepare | None, backend: LoadBackend, started: Connection
) -> None:
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    app = build_app(
        replace(settings, data_dir=data_dir, speculation="off"),
        Database.open(data_dir),
        hosts=loopback_hosts(port),
        prepare_model=prepare,
        backend=backend,
        on_status=settled(lambda status: None),
    )
    started.send(port)
    Server(app).run(sockets=[listener])


def no_weights(prepared: PreparedModel, config: EngineConfig, progress: Progress) -> Backend:
    """A `LoadBackend`: there is none. Raises `ModelUnavailable`."""
    raise ModelUnavailable("The web layer is measured without a model.")
