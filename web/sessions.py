"""Who is speaking: the session cookie of a device that was let in, and the door for all others.

An address is never a reason to let anyone in, 127.0.0.1 included: other programs and other people of this
machine have it too.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import sha256

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from storage.conversations import utc_now
from storage.devices import SESSION_AGE, Devices
from storage.errors import StorageError
from storage.records import DeviceRecord
from web.device_names import device_name
from web.faults import log_fault
from web.languages import Languages
from web.pairing import Invited
from web.waiting import admit

NOTICE_EVERY = timedelta(minutes=5)
PAIR_PATH = "/pair"
FREE_PATHS = ("/health",)
FREE_FOLDERS = ("/static/",)


class Sessions:
    """Sessions of devices, each with a token that only its browser has. Event loop; rows in pool threads."""

    def __init__(
        self,
        devices: Devices,
        port: int,
        *,
        secure: bool = False,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`secure`: whether it is served over TLS. `pause` waits so many seconds; it is for doubles."""
        self.devices = devices
        self.pause = pause
        self.secure = secure
        self.cookie = f"__Host-ondol_{port}" if secure else f"ondol_{port}"
        """Browsers share cookies between the ports of a host: another server's must have another name. And a
        token that once went over the network in the clear is none over TLS."""

    async def device_of(self, connection: HTTPConnection) -> DeviceRecord | None:
        """The device that holds the cookie's session. Raises `StorageError`."""
        token = connection.cookies.get(self.cookie)
        if token is None:
            return None
        device = await run_in_threadpool(self.devices.find, _digest(token))
        if device is not None and utc_now() - device.last_seen_at > NOTICE_EVERY:
            await run_in_threadpool(self.notice, device.id)
        return device

    async def begin(self, request: Request, response: Response, whose: Invited) -> DeviceRecord:
        """A new session for the browser that asks, whose cookie the response carries; what it held before
        ends. Raises `TooManyDevices`.
        """
        token, earlier, before = (
            secrets.token_urlsafe(32),
            request.cookies.get(self.cookie),
            device_of(request),
        )
        device = await run_in_threadpool(
            self.devices.add,
            _digest(token),
            device_name(request.headers.get("user-agent", "")),
            whose.person_id,
            before.id if before else None,
            whose.name,
            _digest(earlier) if earlier else None,
        )
        age = int(SESSION_AGE.total_seconds())
        response.set_cookie(
            self.cookie, token, max_age=age, path="/", secure=self.secure, httponly=True, samesite="strict"
        )
        return device

    def forget(self, response: Response) -> None:
        """Have the browser forget its cookie."""
        response.delete_cookie(self.cookie, path="/", secure=self.secure, httponly=True, samesite="strict")

    def notice(self, device_id: str) -> None:
        """The device was here now. Blocks."""
        try:
            self.devices.saw(device_id)
        except StorageError:
            return  # a full disk must not lock anyone out


class SessionGuard:
    """ASGI middleware: whoever has no session gets the pairing page, and nothing else.

    The connection of a device that has one may take its time from then on, see `web.waiting`.
    """

    def __init__(
        self,
        app: ASGIApp,
        sessions: Sessions,
        languages: Languages,
        stranger: Callable[[Request], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._languages = languages
        self._stranger = stranger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or _is_free(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            device = await self._sessions.device_of(HTTPConnection(scope))
        except StorageError as error:
            log_fault(error)
            sentence = self._languages.of(HTTPConnection(scope)).sentence(str(error))
            await _refuse(scope, receive, send, PlainTextResponse(sentence, 503))
            return
        scope.setdefault("state", {})["device"] = device
        if device is not None:
            admit(scope)
        if device is not None or (scope["type"] == "http" and scope["path"] == PAIR_PATH):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await _refuse(scope, receive, send, PlainTextResponse("This device is not connected.", 401))
        else:
            response = await self._stranger(Request(scope, receive))
            await response(scope, receive, send)


def device_of(connection: HTTPConnection) -> DeviceRecord | None:
    """The device that the guard has found; None where there is no guard, since nobody else can connect."""
    found: DeviceRecord | None = getattr(connection.state, "device", None)
    return found


def _is_free(path: str) -> bool:
    return path in FREE_PATHS or path.startswith(FREE_FOLDERS)


async def _refuse(scope: Scope, receive: Receive, send: Send, response: Response) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "not connected"})  # answered as 403
    else:
        await response(scope, receive, send)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()
