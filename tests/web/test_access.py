"""Who may speak to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.web.conftest import echo
from tests.web.serving import Served
from web.access import AccessGuard

ROUTES = ("/", "/c/nobody", "/health", "/static/nothing", "/nowhere")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("access")
    served = Served(folder, echo)
    yield served
    served.close()


def hosts(port: int) -> list[str]:
    return [
        "evil.test",
        f"evil.test:{port}",
        f"127.0.0.1:{port}.evil.test",
        f"localhost.evil.test:{port}",
        f"127.0.0.1.nip.io:{port}",
        f"127.0.0.1:{port + 1}",
        "127.0.0.1",
        f"0.0.0.0:{port}",
        f"192.168.0.10:{port}",
        f"user@127.0.0.1:{port}",
        f"localhost.:{port}",
        f"2130706433:{port}",
        f"[::ffff:127.0.0.1]:{port}",
        "",
    ]


def origins(port: int) -> list[str | None]:
    return [
        None,
        "null",
        "",
        "http://evil.test",
        f"https://127.0.0.1:{port}",
        "http://127.0.0.1",
        f"http://127.0.0.1:{port + 1}",
        f"http://127.0.0.1:{port}.evil.test",
        f"http://user@127.0.0.1:{port}",
        f"http://localhost:{port}",
        f"HTTP://127.0.0.1:{port}",
        f"http://127.0.0.1:{port}/",
    ]


def status_of_socket(served: Served, origin: str | None, host: str | None = None) -> int:
    headers = {"Host": host} if host is not None else {}
    url = f"ws://127.0.0.1:{served.port}/ws"
    try:
        with connect(
            url, additional_headers={**headers, **({"Origin": origin} if origin is not None else {})}
        ):
            return 101
    except InvalidStatus as refusal:
        return refusal.response.status_code


@pytest.mark.parametrize("index", range(14))
def test_a_foreign_host_is_refused_before_anything_is_looked_at(served: Served, index: int) -> None:
    host = hosts(served.port)[index]
    for route in ROUTES:
        assert served.get(route, Host=host).status_code in (400, 403), (route, host)
    assert served.post("/api/conversations/x/delete", {}, Host=host).status_code in (400, 403)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_its_own_names_are_let_in(served: Served, name: str) -> None:
    assert served.get("/", Host=f"{name}:{served.port}").status_code == 200


@pytest.mark.parametrize("index", range(12))
def test_a_socket_from_another_origin_is_refused_before_it_opens(served: Served, index: int) -> None:
    assert status_of_socket(served, origins(served.port)[index]) == 403


def test_a_socket_from_the_page_itself_opens(served: Served) -> None:
    assert status_of_socket(served, served.url) == 101


@pytest.mark.parametrize("index", range(12))
def test_a_change_from_another_origin_is_refused(served: Served, index: int) -> None:
    origin = origins(served.port)[index]
    import httpx2

    headers = {} if origin is None else {"Origin": origin}
    response = httpx2.post(f"{served.url}/api/conversations/x/delete", json={}, headers=headers)
    assert response.status_code == 403


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
    asyncio.run(AccessGuard(app, {"house:1"})(scope, receive, send))
    assert statuses[0] == status


@pytest.mark.parametrize("route", ROUTES)
def test_every_answer_has_the_security_headers(served: Served, route: str) -> None:
    headers = served.get(route).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_a_url_can_neither_send_nor_change_anything(served: Served) -> None:
    assert served.get("/?q=hello").status_code == 200
    assert served.get("/api/conversations/x/delete").status_code == 405
