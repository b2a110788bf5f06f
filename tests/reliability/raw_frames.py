"""WebSocket frames byte by byte, right and wrong ones (RFC 6455, section 5)."""

from __future__ import annotations

import os
import socket
import struct

from tests.web.client import WAIT_S
from tests.web.serving import Served

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
CONTINUATION = 0x0
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def raw_frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    reserved: int = 0,
    masked: bool = True,
    declared: int | None = None,
) -> bytes:
    """One frame; `declared` is the length that its header tells, whatever the payload's is."""
    length = len(payload) if declared is None else declared
    first, mask_bit = fin << 7 | reserved << 4 | opcode, masked << 7
    if length < 126:
        header = struct.pack("!BB", first, mask_bit | length)
    elif length < 2**16:
        header = struct.pack("!BBH", first, mask_bit | 126, length)
    else:
        header = struct.pack("!BBQ", first, mask_bit | 127, length)
    if not masked:
        return header + payload
    key = os.urandom(4)
    pad = key * (len(payload) // 4 + 1)
    hidden = int.from_bytes(payload, "big") ^ int.from_bytes(pad[: len(payload)], "big")
    return header + key + hidden.to_bytes(len(payload), "big")


class RawSocket:
    """A WebSocket whose frames the test makes itself."""

    def __init__(self, served: Served, extra: str = "") -> None:
        self._socket = socket.create_connection(("127.0.0.1", served.port), WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = (
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nOrigin: {served.url}\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {KEY}\r\n"
            f"Sec-WebSocket-Version: 13\r\n{extra}\r\n"
        )
        self._socket.sendall(request.encode())
        self._received = b""
        while b"\r\n\r\n" not in self._received:
            self._more()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        self.head = head.decode()
        assert self.head.startswith("HTTP/1.1 101 ")

    def send(self, data: bytes, *, end: bool = False) -> None:
        """Raw bytes; with `end` nothing follows them."""
        self._socket.sendall(data)
        if end:
            self._socket.shutdown(socket.SHUT_WR)

    def close_code(self) -> int | None:
        """Read until the server ends the connection; with which code, None without one."""
        code = None
        try:
            while (frame := self._frame()) is not None:
                opcode, payload = frame
                if opcode == CLOSE:
                    code = int.from_bytes(payload[:2], "big")
        except ConnectionResetError:
            pass
        self._socket.close()
        return code

    def _frame(self) -> tuple[int, bytes] | None:
        """The server's next frame; None at the end. A server's are never masked."""
        if not self._has(2):
            return None
        opcode, length, start = self._received[0] & 0xF, self._received[1], 2
        if length > 125:
            start += 2 if length == 126 else 8
            assert self._has(start)
            length = int.from_bytes(self._received[2:start], "big")
        assert self._has(start + length)
        payload, self._received = (
            self._received[start : start + length],
            self._received[start + length :],
        )
        return opcode, payload

    def _has(self, size: int) -> bool:
        while len(self._received) < size:
            if not self._more():
                return False
        return True

    def _more(self) -> bool:
        data = self._socket.recv(65_536)
        self._received += data
        return bool(data)
