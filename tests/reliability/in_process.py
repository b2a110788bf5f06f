"""The whole app without uvicorn and TCP, for tests that start it hundreds of times.

Everything above the socket is the real one: lifespan, guards, routes, commands, storage, engine. Its event
loop has a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import httpx2
from starlette.types import Message, Receive, Scope, Send
from websockets.sync.client import ClientConnection

from storage.database import Database
from tests.inference.doubles import ScriptedBackend, prepare_double, scripted_loader
from tests.web.client import WAIT_S, Client
from tests.web.serving import UNLIMITED, SmallSettings
from web.app import build_app
from web.services import Services

HOST = "127.0.0.1:80"
ORIGIN = f"http://{HOST}"
ASGI = {"version": "3.0", "spec_version": "2.4"}


class InProcess:
    """One run of the app. `pace` makes the double wait for a permit at every step."""

    def __init__(
        self, folder: Path, reply: Callable[[str], str], *, pace: threading.Semaphore, window: int = 4_096
    ) -> None:
        self.services: Services
        self.backends: list[ScriptedBackend] = []
        settings = SmallSettings(model="double", data_dir=folder, models_dir=folder / "models")
        self.database = Database.open(folder)
        self._app = build_app(
            settings,
            self.database,
            hosts={HOST},
            limits=UNLIMITED,
            prepare_model=lambda *_: prepare_double(folder / "model", window=window),
            backend=scripted_loader(reply, self.backends, pace),
        )
        self._clients: list[Client] = []
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self._thread.start()
        assert self._up.wait(WAIT_S)

    async def _live(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with self._app.router.lifespan_context(self._app) as state:
            self._state = dict(state or {})
            self.services = self._state["services"]
            self.services.engine.begin()
            self._up.set()
            await self._end.wait()

    def client(self) -> Client:
        """A socket."""
        client = Client(cast(ClientConnection, _Connection(self._stateful, self._loop)))
        self._clients.append(client)
        return client

    def ready_client(self) -> Client:
        """A socket of a server whose model is ready."""
        client = self.client()
        client.wait_for("status", phase="ready")
        return client

    def announce_status(self) -> None:
        """Have every socket told how the model is."""
        self._loop.call_soon_threadsafe(self.services.announce_status)

    def post(self, path: str, body: Any = None) -> httpx2.Response:
        """What a page of this server posts."""
        return asyncio.run_coroutine_threadsafe(self._post(path, body), self._loop).result(WAIT_S)

    async def _post(self, path: str, body: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=cast(Any, self._stateful))
        async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as http:
            return await http.post(path, json=body, headers={"Host": HOST, "Origin": ORIGIN})

    async def _stateful(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "state": dict(self._state)}, receive, send)

    def close(self, let_go: Callable[[], None] = lambda: None) -> None:
        """End in order, the sockets first; with `let_go` the double goes on meanwhile."""
        for client in self._clients:
            client.close()
        self._loop.call_soon_threadsafe(self._end.set)
        let_go()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


class _Connection:
    """What `Client` needs of a WebSocket connection, over ASGI alone."""

    def __init__(self, app: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._in: asyncio.Queue[Message] = asyncio.Queue()
        self._in.put_nowait({"type": "websocket.connect"})
        self._out: SimpleQueue[str] = SimpleQueue()
        self._closed = False
        scope = {
            "type": "websocket",
            "asgi": ASGI,
            "scheme": "ws",
            "path": "/ws",
            "raw_path": b"/ws",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", HOST.encode()), (b"origin", ORIGIN.encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "subprotocols": [],
        }
        self._serving = asyncio.run_coroutine_threadsafe(app(scope, self._in.get, self._take), loop)
        self._serving.add_done_callback(lambda _: self._out.put(json.dumps({"type": "over"})))

    async def _take(self, message: Message) -> None:
        if self._closed:
            raise OSError("nobody is there")
        if message["type"] == "websocket.send":
            self._out.put(message["text"])
        elif message["type"] == "websocket.close":
            self._out.put(json.dumps({"type": "closed", "code": message["code"]}))

    def send(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self._in.put_nowait, {"type": "websocket.receive", "text": text})

    def recv(self, timeout: float) -> str:
        frame = self._out.get(timeout=timeout)
        assert self._closed or not self._serving.done(), "the server ended the socket"
        return frame

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            left = {"type": "websocket.disconnect", "code": 1001}
            self._loop.call_soon_threadsafe(self._in.put_nowait, left)
            self._serving.result(WAIT_S)
