"""Connections of those who were not let in: a limited number, each for a limited time."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

import pytest

from tests.web.client import WAIT_S
from tests.web.serving import Served
from web.waiting import MAX_WAITING, WAITING_S, Patience

Serve = Callable[..., Served]
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def dial(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=WAIT_S)


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has ended it already."""
    connection.setblocking(False)
    try:
        return connection.recv(65_536) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def wait_until_closed(connection: socket.socket, drip: bytes = b"") -> float:
    """Until the server ends it, sending a byte now and then; how long that took."""
    start = time.monotonic()
    connection.settimeout(0.05)
    while time.monotonic() - start < WAIT_S:
        try:
            if drip:
                connection.sendall(drip)
            if connection.recv(65_536) == b"":
                return time.monotonic() - start
        except TimeoutError:
            continue
        except ConnectionError:
            return time.monotonic() - start
    raise AssertionError("the connection was kept")


@pytest.mark.row(34)
def test_500_silent_connections_are_capped_and_a_paired_device_is_served(serve: Serve) -> None:
    served = serve(lan=True)
    cookie = served.guest()
    talking = served.ready_client(cookie)
    with contextlib.ExitStack() as open_ones:
        silent = [open_ones.enter_context(dial(served)) for _ in range(500)]
        for connection in silent[::2]:
            with contextlib.suppress(ConnectionError):
                connection.sendall(HALF)
        talking.say_and_wait("still here")
        assert served.get("/", Cookie=cookie).status_code == 200
        served.ready_client(cookie).settle()
        left = sum(not is_closed(connection) for connection in silent)
    assert 0 < left <= MAX_WAITING
    assert WAITING_S <= 10


@pytest.mark.row(34)
@pytest.mark.parametrize(
    ("said", "drip"),
    [
        (b"", b""),
        (HALF, b""),
        (HALF + b"X-Slow: ", b"a"),
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n", b"a"),
    ],
    ids=["silent", "half a request", "a header byte by byte", "a body byte by byte"],
)
def test_who_never_finishes_a_request_is_cut_off(serve: Serve, said: bytes, drip: bytes) -> None:
    served = serve(lan=True, patience=Patience(request_s=0.4, answer_s=0.4))
    with dial(served) as connection:
        connection.sendall(said)
        wait_until_closed(connection, drip)


def test_who_does_not_read_the_answer_is_cut_off_and_a_device_that_is_in_may_be_slow(serve: Serve) -> None:
    served = serve(lan=True, patience=Patience(request_s=0.4, answer_s=0.4))
    cookie = served.guest()
    host = f"Host: 127.0.0.1:{served.port}\r\nOrigin: {served.url}\r\n"
    with dial(served) as stranger, dial(served) as guest:
        stranger.sendall(f"POST /pair HTTP/1.1\r\n{host}Content-Length: 20\r\n\r\n{{".encode())
        body = b'{"title": "slow"}'
        head = f"POST /api/conversations/x/rename HTTP/1.1\r\n{host}Cookie: {cookie}\r\n"
        guest.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:3])
        wait_until_closed(stranger)
        guest.sendall(body[3:])
        assert guest.recv(65_536).startswith(b"HTTP/1.1 404")
