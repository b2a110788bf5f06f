"""Who may speak to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from tests.web.conftest import echo
from tests.web.serving import Served
from web.access import AccessGuard
from web.languages import load_languages


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("access")
    served = Served(folder, echo)
    yield served
    served.close()


def test_forwarded_requests_are_refused(served: Served) -> None:
    for name in ("X-Forwarded-For", "X-Forwarded-Host", "x-forwarded-proto", "Forwarded", "X-Real-IP", "Via"):
        assert served.get("/", **{name: "127.0.0.1"}).status_code == 403, name


@pytest.mark.parametrize(
    ("client", "server", "status"),
    [
        ("192.168.0.7", "192.168.0.2", 200),
        ("10.1.2.3", "10.0.0.1", 200),
        ("100.64.0.9", "100.64.0.1", 200),
        ("8.8.8.8", "192.168.0.2", 403),
        ("192.168.0.7", "9.9.9.9", 403),
        ("2001:4860:4860::8888", "192.168.0.2", 403),
    ],
)
def test_connections_from_or_to_public_addresses_are_refused(client: str, server: str, status: int) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("inside")(scope, receive, send)

    statuses = []

    async def send(message: Message) -> None:
        statuses.append(message.get("status"))

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"house:1")]}
    scope |= {"client": (client, 5), "server": (server, 1)}
    asyncio.run(AccessGuard(app, {"house:1"}, load_languages())(scope, receive, send))
    assert statuses[0] == status


def test_a_url_can_neither_send_nor_change_anything(served: Served) -> None:
    assert served.get("/?q=hello").status_code == 200
    assert served.get("/api/conversations/x/delete").status_code == 405
