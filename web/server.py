"""Starting and ending the server process: socket, database, uvicorn."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
from web.lan import LanHosts, Scheme, host_names, private_addresses
from web.lateness import PatientSocket
from web.logs import log_discreetly
from web.resting_server import RestingServer
from web.settings import Settings
from web.sharing import share
from web.terminal import StatusPrinter, print_fingerprint, print_invitation
from web.tls import Tls
from web.unread import Unread, cut_off, is_waiting
from web.waiting import WAITING_S, Patience, waiting_protocol

logger = logging.getLogger(__name__)

GRACE_S = 3
TLS_END_S = 2.0
"""Less than the grace: who does not answer the end of TLS is cut off before the event loop ends."""
END_S = 1.0
"""What a client that takes nothing gets to take the end."""
SWITCH_S = 0.001
LOOK_S = 1.0
"""Between two looks at the connections, while anybody has something to take."""


def run_server(
    settings: Settings, build: Callable[..., Starlette] = build_app, patience: Patience | None = None
) -> None:
    """Serve until a signal ends it. Raises `StartFailed`, `StorageError` or `ModelError`, nothing changed.

    A worker that hangs ends the process with `EXIT_HUNG`. The last two arguments are for doubles.
    """
    log_discreetly()
    check(settings.model)
    listener = listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    with listener, sole_user(settings.data_dir):
        tls, on_read = prepare_tls(settings)
        scheme: Scheme = "https" if tls else "http"
        database = Database.open(settings.data_dir)
        printer = StatusPrinter()
        loopback = loopback_hosts(port, scheme)
        own = LanHosts(port, always=loopback, scheme=scheme, on_read=on_read) if settings.lan else None
        sharing = share(Devices(database), own, tls) if own else None
        hosts = own or loopback
        on_status = settled(printer)
        app = build(settings, database, hosts=hosts, sharing=sharing, on_status=on_status, on_hang=exit_hung)
        # uvicorn ends in order after a signal and then raises it again; by then an orderly end is a success.
        # Set before the address is told: whoever reads it may end the server at once.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(0))
        print(f"Ondol is at {scheme}://127.0.0.1:{port}  (Ctrl+C ends it)", flush=True)
        if tls is not None:
            print_fingerprint(tls.fingerprint)
        if sharing is not None:
            encrypted = tls is not None
            print_invitation(sharing.owner_url(), sharing.addresses(), sharing.codes.issue(), encrypted)
        try:
            Server(app, tls, patience).run(sockets=[listener])
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


def prepare_tls(settings: Settings) -> tuple[Tls | None, Callable[[list[str]], None]]:
    """What to encrypt with, if anything, and what to tell of this machine's names when they were read anew.

    Raises `StartFailed`. Given files are used as they are; one's own certificate follows the machine's names.
    """
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise StartFailed("--tls-cert and --tls-key go together: a certificate is of no use without its key.")
    if not settings.tls and settings.tls_cert is None:
        return None, lambda names: None
    from web.certificates import OwnCertificate, given_certificate

    if settings.tls_cert is not None and settings.tls_key is not None:
        return Tls(given_certificate(settings.tls_cert, settings.tls_key)), lambda names: None
    own = OwnCertificate(settings.data_dir)
    tls = Tls(own.for_names([*private_addresses(), *host_names()]))

    def follow(names: list[str]) -> None:
        try:
            tls.use(own.for_names(names))
        except StartFailed as error:
            logger.warning("The certificate was not renewed: %s", error)

    return tls, follow


class EventLoop(asyncio.SelectorEventLoop):
    """An event loop that gives a TLS handshake ten seconds, not a minute; uvicorn has no setting for it."""

    handshake_s = WAITING_S

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": self.handshake_s, "ssl_shutdown_timeout": TLS_END_S}
        server: asyncio.Server = await super().create_server(*args, **options)
        return server


def uvicorn_config(app: ASGIApp, tls: Tls | None = None, patience: Patience | None = None) -> uvicorn.Config:
    """How uvicorn runs the app. Pongs may be late: importing torch holds the interpreter for a while."""
    patience = patience or Patience()
    return uvicorn.Config(
        app,
        interface="asgi3",  # which uvicorn guesses of functions and objects, not of methods
        http=waiting_protocol(patience),
        loop=f"{__name__}:EventLoop",
        ssl_context_factory=(lambda config, default: tls.context) if tls else None,
        ws=PatientSocket,
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=patience.ping_s,
        ws_ping_timeout=patience.pong_s,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,  # as everything else: uvicorn's own would quote values
        log_level="warning",
        timeout_graceful_shutdown=GRACE_S,
    )


class Server(RestingServer):
    """The server of one app, which looks after its connections as long as anything is sent."""

    def __init__(self, app: ASGIApp, tls: Tls | None = None, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._app = app
        super().__init__(uvicorn_config(self._serve_app, tls, self._patience))
        self._unread = Unread()
        self._sends = False

    def look_after(self) -> float | None:
        """Cut off who takes nothing; in how many seconds to look again."""
        sends, self._sends = self._sends, False
        some_wait = self._unread.look(self._connections())
        return LOOK_S if some_wait or sends else None

    async def _serve_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_watched(message: Message) -> None:
            self._sends = True
            self.stir()
            await send(message)

        await self._app(scope, receive, send_watched)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End in order, but wait for nobody who takes nothing."""
        ending = asyncio.get_running_loop().call_later(END_S, self._end_unread)
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    def _connections(self) -> Iterator[tuple[asyncio.Transport, float]]:
        """Each with the seconds that its client has to take something. A download may be paused."""
        patience = self._patience
        for connection in self.server_state.connections:
            is_socket = isinstance(connection, PatientSocket)
            yield connection.transport, patience.unread_s if is_socket else patience.answer_s

    def _end_unread(self) -> None:
        for connection in self.server_state.connections:
            if connection.transport.is_closing() and is_waiting(connection.transport):
                cut_off(connection.transport, END_S)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, before anything else is begun: a port in use must cost nothing."""
    # asyncio switches Nagle's delay off only where the socket says itself that it is TCP: else a frame sent
    # soon after another waits for the client's acknowledgement, 40 ms and more.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
