"""Starting and ending the server process: socket, database, uvicorn."""

from __future__ import annotations

import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from inference.models.locate import check
from inference.types import ModelPhase, ModelStatus
from storage.database import Database
from storage.devices import Devices
from storage.files import sole_user
from web.access import loopback_hosts
from web.app import build_app
from web.commands import MAX_FRAME_BYTES
from web.ending import exit_hung
from web.errors import StartFailed
from web.settings import Settings
from web.sharing import share
from web.terminal import StatusPrinter, print_invitation

GRACE_S = 3
SWITCH_S = 0.001


def run_server(settings: Settings, build: Callable[..., Starlette] = build_app) -> None:
    """Serve until a signal ends it. Raises `StartFailed`, `StorageError` or `ModelError`, nothing changed.

    A worker that hangs ends the process with `EXIT_HUNG`. `build` is for doubles.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    check(settings.model)
    listener = listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    with listener, sole_user(settings.data_dir):
        database = Database.open(settings.data_dir)
        printer = StatusPrinter()
        sharing = share(port, Devices(database)) if settings.lan else None
        hosts = sharing.hosts if sharing else loopback_hosts(port)
        on_status = settled(printer)
        app = build(settings, database, hosts=hosts, sharing=sharing, on_status=on_status, on_hang=exit_hung)
        print(f"Ondol is at http://127.0.0.1:{port}  (Ctrl+C ends it)", flush=True)
        if sharing is not None:
            print_invitation(sharing.owner_url(), sharing.addresses(), sharing.codes.issue())
        # uvicorn ends in order after a signal and then raises it again; by then an orderly end is a success.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(0))
        try:
            uvicorn.Server(uvicorn_config(app)).run(sockets=[listener])
        finally:
            printer.close()


def settled(report: Callable[[ModelStatus], None]) -> Callable[[ModelStatus], None]:
    """Keep threads from waiting long for each other, now and once the model is there.

    A full garbage collection over everything that stays in memory stops every thread for a tenth of a second
    and more: it is taken out of the collector's sight. And a thread that renders a long message gives way
    five times as often as by default, since what waits is mostly a short frame.
    """
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()

    def reported(status: ModelStatus) -> None:
        report(status)
        if status.phase is ModelPhase.READY:
            gc.freeze()

    return reported


def uvicorn_config(app: Starlette) -> uvicorn.Config:
    """How uvicorn runs the app. Pongs may be late: importing torch holds the interpreter for a while."""
    return uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_timeout=60,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=GRACE_S,
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, before anything else is begun: a port in use must cost nothing."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StartFailed(f"Port {port} is in use. Choose another with --port, or 0 for any.") from None
        raise StartFailed(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
    return listener
