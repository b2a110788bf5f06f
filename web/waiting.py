"""Connections of those that were not let in yet: so many at once, and each only for so long. Event loop.

uvicorn ends a connection that is idle between two requests; one that never completes its first, or sends a
byte now and then, it would keep for ever. Here a connection waits from its first moment until its request is
known to come from someone who was let in, and again between requests. What waits too long is cut off, and so
is the one that waits longest when there are too many: those who are let in have asked by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from web.access import NOT_KEPT, SECURITY_HEADERS
from web.unread import keep_little

WAITING_S = 10.0
UNREAD_BODY_S = 2.0
ANSWERING_S = 60.0
MAX_WAITING = 128
PING_S = 20.0
PONG_S = 60.0
UNREAD_S = 10.0
KEY = "admit"

Timer: TypeAlias = asyncio.TimerHandle


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a connection may wait (for its request, for our answer to leave), and how many may. A socket
    is asked every `ping_s` seconds whether its client is there, which has `pong_s` to answer, and `unread_s`
    to take something of what it is sent.
    """

    request_s: float = WAITING_S
    answer_s: float = ANSWERING_S
    most: int = MAX_WAITING
    ping_s: float = PING_S
    pong_s: float = PONG_S
    unread_s: float = UNREAD_S


@dataclass(slots=True)
class WaitingRoom:
    """The connections that wait, the one that has waited longest first."""

    patience: Patience
    _timers: dict[H11Protocol, Timer] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._timers)

    def enter(self, connection: H11Protocol, seconds: float) -> None:
        """It waits from now on, at most so long."""
        self.leave(connection)
        if len(self._timers) >= self.patience.most:
            self._cut(next(iter(self._timers)))
        self._timers[connection] = connection.loop.call_later(seconds, self._cut, connection)

    def leave(self, connection: H11Protocol) -> None:
        """It waits no more."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def prolong(self, connection: H11Protocol, seconds: float) -> None:
        """It may wait so long from now on, in its old place."""
        timer = self._timers.get(connection)
        if timer is not None:
            timer.cancel()
            self._timers[connection] = connection.loop.call_later(seconds, self._cut, connection)

    def _cut(self, connection: H11Protocol) -> None:
        self.leave(connection)
        connection.transport.abort()  # a polite end would wait for one who does not read


def waiting_protocol(patience: Patience) -> type[H11Protocol]:
    """uvicorn's HTTP protocol, with a waiting room that all connections of one server share."""
    room = WaitingRoom(patience)

    class WaitingProtocol(H11Protocol):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(config, server_state, {**app_state, KEY: self._admit}, _loop)
            self._answering = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            room.enter(self, patience.request_s)

        def connection_lost(self, exc: Exception | None) -> None:
            room.leave(self)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if not self._answering and self.cycle is not None and not self.cycle.response_complete:
                self._answering = True
                room.prolong(self, patience.answer_s)

        def handle_websocket_upgrade(self, event: h11.Request) -> None:
            room.leave(self)  # it is answered at once, and closed unless it was let in
            keep_little(self.transport)
            super().handle_websocket_upgrade(event)

        def on_response_complete(self) -> None:
            self._answering = False
            if not self.transport.is_closing():
                unread = self.conn.their_state is h11.SEND_BODY
                room.enter(self, min(UNREAD_BODY_S, patience.request_s) if unread else patience.request_s)
            super().on_response_complete()

        def send_400_response(self, msg: str) -> None:
            """As uvicorn's, with the headers that every other answer has."""
            headers = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close"}
            lines = [f"{name}: {value}" for name, value in (headers | NOT_KEPT | SECURITY_HEADERS).items()]
            head = "\r\n".join(["HTTP/1.1 400 Bad Request", *lines, f"Content-Length: {len(msg)}"])
            self.transport.write(f"{head}\r\n\r\n{msg}".encode("ascii"))
            self.transport.close()

        def _admit(self) -> None:
            room.leave(self)

    return WaitingProtocol


def admit(scope: Scope) -> None:
    """Whoever sent this request was let in: its connection waits no more."""
    found: Callable[[], None] | None = scope.get("state", {}).get(KEY)
    if found is not None:
        found()


class Welcome:
    """ASGI middleware for a server that is not shared: whoever reaches it was let in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admit(scope)
        await self._app(scope, receive, send)
