"""A real server on a real socket, in this process, with a scripted backend in place of a model."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from queue import Queue
from typing import Any

import httpx2
from starlette.routing import BaseRoute
from websockets.sync.client import connect

from inference.config import EngineConfig
from inference.models.prepared import PreparedModel
from storage.conversations import utc_now
from storage.database import Database
from storage.devices import Devices
from tests.inference.doubles import CHATML, OPENING, ScriptedBackend, prepare_double, scripted_loader
from tests.web.client import WAIT_S, Client
from tests.web.leaks import Leaks
from web.access import loopback_hosts
from web.app import build_app
from web.lan import LanHosts, Scheme
from web.server import Server, listen
from web.settings import Settings
from web.sharing import share
from web.socket_limits import SocketLimits
from web.tls import Tls
from web.waiting import Patience

OTHER_ADDRESS = "127.0.0.2"
"""Linux has all of 127.0.0.0/8: a second address whose traffic never leaves the machine."""
UNLIMITED = SocketLimits(bad_frames=10**9, frames=10**9)
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) Version/18.5 Mobile/15E148 Safari/604.1"


@dataclass(frozen=True)
class SmallSettings(Settings):
    """Settings of which the engine gets more than people can configure. A step makes one token."""

    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def engine(self) -> EngineConfig:
        made: EngineConfig = Settings.engine.fget(self)  # type: ignore[attr-defined]
        return replace(made, **{"speculation": "off", **self.changes})


class Served:
    """One run of the server. `pace` makes the double wait for a permit at every step; `engine` changes its
    configuration, `kind` which double it is. `hangs` is told of a worker that hangs.

    With `lan` it is shared, and answers on a second address of this machine, as it would on the network;
    `waits_by` is the clock of codes and of wrong guesses. `routes` go before its own. When it ends, none of
    what lets people in may have leaked.
    """

    def __init__(
        self,
        folder: Path,
        reply: Callable[[str], str],
        *,
        window: int = 512,
        pace: threading.Semaphore | None = None,
        prepare: Callable[..., PreparedModel] | None = None,
        system_prompt: str = "Be brief.",
        template: str = CHATML,
        thinking: bool = True,
        opening: str = OPENING,
        port: int = 0,
        engine: Mapping[str, Any] | None = None,
        lan: bool = False,
        tls: bool = False,
        patience: Patience | None = None,
        clock: Callable[[], datetime] = utc_now,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        kind: type[ScriptedBackend] = ScriptedBackend,
        limits: SocketLimits = UNLIMITED,
        waits_by: Callable[[], float] = time.monotonic,
        routes: Sequence[BaseRoute] = (),
    ) -> None:
        self.leaks = Leaks()
        self.hangs: Queue[str] = Queue()
        self.backends: list[ScriptedBackend] = []
        self._pace = pace
        settings = SmallSettings(
            model="double",
            data_dir=folder / "data",
            models_dir=folder / "models",
            system_prompt=system_prompt,
            thinking=thinking,
            changes=engine or {},
        )
        self.database = Database.open(settings.data_dir)
        listener = listen("127.0.0.1", port)
        self.port: int = listener.getsockname()[1]
        self.scheme: Scheme = "https" if tls else "http"
        self.tls = _own_tls(settings.data_dir) if tls else None
        cafile = str(self.tls.current.certificate) if self.tls else None
        self.trust: ssl.SSLContext | bool = ssl.create_default_context(cafile=cafile) if cafile else True
        listeners = [listener]
        if lan:
            listeners.append(listen(OTHER_ADDRESS, self.port))
            self._share(clock, pause, waits_by)
        app = build_app(
            settings,
            self.database,
            hosts=self.sharing.hosts if lan else loopback_hosts(self.port, self.scheme),
            sharing=self.sharing if lan else None,
            limits=limits,
            on_hang=self.hangs.put,
            prepare_model=prepare
            or (lambda *_: prepare_double(folder / "model", window=window, template=template)),
            backend=scripted_loader(reply, self.backends, pace, opening, kind),
        )
        app.router.routes[:0] = routes
        self._server = Server(self.leaks.watching(app), self.tls, patience)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": listeners})
        self._thread.start()
        self._sockets = ExitStack()

    def _share(
        self,
        clock: Callable[[], datetime],
        pause: Callable[[float], Awaitable[None]],
        waits_by: Callable[[], float],
    ) -> None:
        hosts = _double_hosts(self.port, self.scheme)
        sharing = share(Devices(self.database, clock), hosts, self.tls, pause=pause)
        self.sharing = self.leaks.noting(sharing, waits_by)
        self.owner_url = self.sharing.owner_url()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return httpx2.get(self.url + path, headers=headers, verify=self.trust, timeout=WAIT_S)

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return httpx2.post(
            self.url + path,
            json=body,
            headers={"Origin": self.url, **headers},
            verify=self.trust,
            timeout=WAIT_S,
        )

    def post_bytes(self, path: str, body: bytes) -> httpx2.Response:
        return httpx2.post(self.url + path, content=body, headers={"Origin": self.url}, timeout=WAIT_S)

    @property
    def lan_url(self) -> str:
        return f"{self.scheme}://{OTHER_ADDRESS}:{self.port}"

    def join(self, source: str = "127.0.0.1", cookie: str = "", **secret: str) -> httpx2.Response:
        """Show a code or the owner's secret, from an address of this machine."""
        headers = {"Origin": self.url, "User-Agent": PHONE, **({"Cookie": cookie} if cookie else {})}
        transport = httpx2.HTTPTransport(verify=self.trust, local_address=source)
        with httpx2.Client(transport=transport, timeout=WAIT_S) as client:
            return client.post(self.url + "/pair", json=secret, headers=headers)

    def guest(self) -> str:
        """A new guest's cookie, as a header."""
        return cookie_of(self.join(code=self.sharing.codes.issue()))

    def owner(self) -> str:
        """A new cookie of the owner's, as a header."""
        return cookie_of(self.join(owner=self.owner_url.partition("#owner=")[2]))

    def client(
        self, cookie: str = "", headers: Mapping[str, str] | None = None, through: int | None = None
    ) -> Client:
        """A socket; `through` is the port of a proxy to this server."""
        connection = connect(
            f"{'wss' if self.tls else 'ws'}://127.0.0.1:{self.port}/ws",
            ssl=self.trust if isinstance(self.trust, ssl.SSLContext) else None,
            sock=socket.create_connection(("127.0.0.1", through)) if through else None,
            origin=self.url,
            max_size=2**24,
            additional_headers={**({"Cookie": cookie} if cookie else {}), **(headers or {})},
        )
        return Client(self._sockets.enter_context(connection))

    def ready_client(self, cookie: str = "", headers: Mapping[str, str] | None = None) -> Client:
        """A client of a server whose model is ready."""
        client = self.client(cookie, headers)
        client.wait_for("status", phase="ready")
        return client

    def close(self) -> None:
        """End as after a signal, while the double goes on step by step."""
        self._server.should_exit = True
        deadline = time.monotonic() + WAIT_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            if self._pace is not None:
                self._pace.release()
            self._thread.join(0.01)
        assert not self._thread.is_alive()
        self._sockets.close()
        self.leaks.close()
        assert self.leaks.found() == []


def cookie_of(response: httpx2.Response) -> str:
    """What the browser would send from now on."""
    assert response.status_code == 204, response.text
    return str(response.headers["set-cookie"]).partition(";")[0]


def _own_tls(folder: Path) -> Tls:
    from web.certificates import OwnCertificate  # cryptography takes a while

    return Tls(OwnCertificate(folder).for_names([OTHER_ADDRESS]))


def _double_hosts(port: int, scheme: Scheme) -> LanHosts:
    return LanHosts(
        port,
        always=loopback_hosts(port, scheme),
        scheme=scheme,
        names=lambda: ["house", "house.local"],
        addresses=lambda: [OTHER_ADDRESS],
    )
