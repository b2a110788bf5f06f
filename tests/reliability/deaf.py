"""A client that says what it likes and reads no more of the answer than its head."""

from __future__ import annotations

import json
import select
import socket
from types import TracebackType
from typing import Any

from websockets.frames import Frame, Opcode

from tests.reliability.house import House
from tests.web.client import WAIT_S

BUFFER = 4_096
"""What its machine takes for it, so that the server soon feels it."""
UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


class Deaf:
    """One connection, which asks for a page or for a socket."""

    def __init__(self, house: House, path: str = "/ws") -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self._socket.settimeout(WAIT_S)
        self._socket.connect(("127.0.0.1", house.port))
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{house.port}", f"Origin: {house.url}"]
        if path == "/ws":
            lines += UPGRADE
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self._socket.recv(1)
        assert answer.split()[1] == (b"101" if path == "/ws" else b"200")

    def __enter__(self) -> Deaf:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def say(self, kind: str, **fields: Any) -> None:
        """Send a command."""
        content = json.dumps({"type": kind, **fields}).encode()
        self._socket.sendall(Frame(Opcode.TEXT, content).serialize(mask=True))

    def is_dropped(self, within_s: float = WAIT_S) -> bool:
        """Whether the server ends the connection in that time."""
        poll = select.poll()
        poll.register(self._socket, select.POLLERR | select.POLLHUP)
        return bool(poll.poll(1_000 * within_s))
