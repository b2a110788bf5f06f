"""Row 33: what lets people in, and where it must never be found: log, addresses asked for, Referer, where an
answer leads to, and error pages. Every test server has one of these and looks through it when it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from storage.records import DeviceRecord
from web.attempts import Attempts
from web.logs import FORMAT, DiscreetFormatter
from web.pairing import Invited, OwnerLink, PairingCodes
from web.sessions import Sessions
from web.sharing import Sharing


class Leaks(logging.Handler):
    """Takes note of one server's secrets, and of what it logs and answers. Any thread."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(DiscreetFormatter(FORMAT))
        self.secrets: set[str] = set()
        self.log: list[str] = []
        self._seen: list[str] = []
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.log.append(self.format(record))

    def close(self) -> None:
        logging.getLogger().removeHandler(self)
        super().close()

    def found(self) -> list[str]:
        """Where a secret is found."""
        seen = [*self.log, *self._seen]
        return [text for text in seen if any(secret in text for secret in self.secrets)]

    def noting(self, sharing: Sharing, clock: Callable[[], float]) -> Sharing:
        """The same, with its secrets noted and its waits by another clock."""
        sessions = sharing.sessions
        return replace(
            sharing,
            codes=_Codes(self.secrets, clock),
            owner=_Owner(self.secrets),
            attempts=Attempts(clock),
            sessions=_Sessions(self.secrets, sessions, sharing.hosts.port),
        )

    def watching(self, app: ASGIApp) -> ASGIApp:
        """The same app, with its requests and answers noted."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] not in ("http", "websocket"):
                await app(scope, receive, send)
                return
            headers = HTTPConnection(scope).headers
            self._seen.append(f"{scope['path']}?{scope['query_string'].decode('latin-1')}")
            self._seen.append(f"Referer: {headers.get('referer', '')}")
            status = 0

            async def noting(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    found = [value for name, value in message["headers"] if name.lower() != b"set-cookie"]
                    self._seen.append(b"\n".join(found).decode("latin-1"))
                elif message["type"] == "http.response.body" and status >= 300:
                    self._seen.append(message.get("body", b"").decode("utf-8", "replace"))
                await send(message)

            await app(scope, receive, noting)

        return watched


class _Codes(PairingCodes):
    def __init__(self, secrets: set[str], clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._secrets = secrets

    def issue(self, *whose: Invited) -> str:
        code = super().issue(*whose)
        self._secrets.add(code)
        return code


class _Owner(OwnerLink):
    def __init__(self, secrets: set[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def issue(self) -> str:
        secret = super().issue()
        self._secrets.add(secret)
        return secret


class _Sessions(Sessions):
    def __init__(self, secrets: set[str], like: Sessions, port: int) -> None:
        super().__init__(like.devices, port, secure=like.secure, pause=like.pause)
        self._secrets = secrets

    async def begin(self, request: Request, response: Response, whose: Invited) -> DeviceRecord:
        device = await super().begin(request, response, whose)
        self._secrets.add(response.headers["set-cookie"].partition("=")[2].partition(";")[0])
        return device
