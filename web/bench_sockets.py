"""Many sockets of pages in one thread, each frame with the moment in which it came. For `ondol bench --web`.

What has come is only noted while more may come, and read afterwards, since reading takes longer.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets import Origin
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from inference.errors import BenchFailed

AT_ONCE = 65_536
ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Came:
    """A frame, and when its last byte came: seconds of the monotonic clock."""

    at: float
    frame: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its type."""
        return str(self.frame["type"])


class Page:
    """One socket, after its handshake. `closed` tells whether the server has ended it."""

    def __init__(self, url: str) -> None:
        """Raises `BenchFailed`."""
        address = urlsplit(url)
        self.closed = False
        self.wire = socket.create_connection((address.hostname or "", address.port or 80))
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread: deque[tuple[float, bytes]] = deque()
        self._came: deque[Came] = deque()
        uri = parse_uri(f"ws{url.removeprefix('http')}/ws")
        self._protocol = ClientProtocol(uri, origin=Origin(url), max_size=None)
        self._protocol.send_request(self._protocol.connect())
        self.flush()
        while self._protocol.state is State.CONNECTING:
            self.take()
            if self.closed:
                raise BenchFailed("The server refused a socket.")
            self._protocol.receive_data(self._unread.pop()[1])
        self._unread.append((time.monotonic(), b""))  # what may have come with the handshake

    def send(self, **command: Any) -> None:
        """Send a command."""
        self._protocol.send_text(msgspec.json.encode(command))
        self.flush()

    def flush(self) -> None:
        """Send what the protocol has to say."""
        with contextlib.suppress(OSError):
            for data in self._protocol.data_to_send():
                self.wire.sendall(data)

    def take(self) -> None:
        """Note what has come, now."""
        try:
            data = self.wire.recv(AT_ONCE)
        except OSError:
            data = b""
        self._unread.append((time.monotonic(), data))
        self.closed = self.closed or not data

    def read(self) -> Iterator[Came]:
        """The frames in what was noted. What is not taken is kept."""
        while self._unread:
            at, data = self._unread.popleft()
            if data:
                self._protocol.receive_data(data)
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    self._came.append(Came(at, msgspec.json.decode(event.data)))
        self.flush()  # pongs
        while self._came:
            yield self._came.popleft()


class Crowd:
    """So many pages on one server."""

    def __init__(self, url: str, pages: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.pages: list[Page] = []
        for _ in range(pages):
            page = Page(url)
            self._selector.register(page.wire, selectors.EVENT_READ, page)
            self.pages.append(page)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for page in self.pages:
            page.wire.close()
        self._selector.close()

    def note(self, timeout_s: float) -> bool:
        """Note what comes, as soon as anything does; whether it did."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            page: Page = key.data
            page.take()
            if page.closed:
                self._selector.unregister(page.wire)
        return bool(ready)

    def wait_for(self, page: Page, kind: str, **fields: Any) -> Came:
        """The next frame of that kind at a page, whose fields have these values; all before it are dropped.

        Raises `BenchFailed`.
        """
        return self.read_until(page, kind, **fields)[-1]

    def read_until(self, page: Page, kind: str, **fields: Any) -> list[Came]:
        """All frames at a page up to that one. Raises `BenchFailed`."""
        deadline, frames = time.monotonic() + ANSWER_S, list[Came]()
        while time.monotonic() < deadline and not page.closed:
            for came in page.read():
                frames.append(came)
                if came.kind == kind and all(came.frame.get(key) == value for key, value in fields.items()):
                    return frames
                if came.kind == "error":
                    raise BenchFailed(f"The server refused: {came.frame['message']}")
            self.note(1.0)
        raise BenchFailed(f"The server sent no {kind} frame.")
