"""Connections whose client takes nothing of what it is sent: noticed, and cut off. Event loop.

Writing to such a client waits for ever, and so does a polite end. What counts is whether the client's machine
acknowledges any byte, so that a slow one is kept however slow it is. (TCP_USER_TIMEOUT is no way to do this:
it also ends a client that reads a little now and then, since to Linux its window stays closed until it has
room for everything that a segment holds.)
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)

KEPT = KEPT_BY_KERNEL = 4_096
"""Bytes that wait for a client here, and there beyond those for which it has room."""
AT_ONCE = struct.pack("ii", 1, 0)
"""Linger: yes, for no time. What was not taken is thrown away, and the client's machine is told."""
BYTES_ACKED = struct.Struct("@120xQ")
"""Where Linux keeps `tcpi_bytes_acked` in its `struct tcp_info` (linux/tcp.h)."""


def keep_little(transport: asyncio.Transport) -> None:
    """Let whoever writes more wait early: what a slow client gets is then made late, and new."""
    transport.set_write_buffer_limits(KEPT)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KEPT_BY_KERNEL)


class Unread:
    """What was seen of each connection that has something to take. `clock` is for doubles."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[asyncio.Transport, tuple[int, float]] = {}

    def look(self, connections: Iterable[tuple[asyncio.Transport, float]]) -> bool:
        """Cut off those that, look after look, have taken nothing for the seconds that they are given. True:
        others have yet to take something.
        """
        now, seen = self._clock(), {}
        for transport, limit_s in connections:
            if not is_waiting(transport):
                continue
            taken = bytes_taken(transport)
            before, since = self._seen.get(transport, (-1, now))
            if before != taken:
                since = now
            if now - since < limit_s:
                seen[transport] = taken, since
            else:
                cut_off(transport, now - since)
        self._seen = seen
        return bool(seen)


def cut_off(transport: asyncio.Transport, seconds: float) -> None:
    """End a connection whose client has taken nothing for so long."""
    address = transport.get_extra_info("peername") or ("somebody",)
    logger.warning("%s took nothing for %.1f s and was cut off", address[0], seconds)
    # Else what it does not take would lie in the kernel for minutes, and nobody be told.
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    transport.abort()


def is_waiting(transport: asyncio.Transport) -> bool:
    """Whether the client has yet to take something."""
    if transport.get_write_buffer_size():
        return True
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:  # it has just ended, TLS and all
        return False
    try:
        unacknowledged = fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4))
    except OSError:
        return False
    return unacknowledged != bytes(4)


def bytes_taken(transport: asyncio.Transport) -> int:
    """A number that rises whenever the client takes something."""
    if not hasattr(socket, "TCP_INFO"):  # seen from here at least, as its buffer becomes smaller
        return -transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED.size)
        taken: int = BYTES_ACKED.unpack(info)[0]
    except (OSError, struct.error):  # it has just ended, or the kernel is older than this number
        return -transport.get_write_buffer_size()
    return taken
