"""Rows 20 and 22: whom a request says that it is for, and whose page asks. Said on a bare connection, so that
every header is sent exactly as it stands here, and by somebody who is let in: a session is no way around.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.client import WAIT_S
from tests.web.conftest import echo
from tests.web.serving import OTHER_ADDRESS, Served
from web.access import SECURITY_HEADERS

UPGRADE = [
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
]
LOOPBACK = ["127.0.0.1:{p}", "localhost:{p}", "LOCALHOST:{p}", "[::1]:{p}"]
ON_THE_NETWORK = [OTHER_ADDRESS + ":{p}", "house:{p}", "house.local:{p}", "House.LOCAL:{p}"]
FOREIGN = [
    "evil.test",
    "evil.test:{p}",
    "evil.localhost:{p}",
    "127.0.0.1:{p}.evil.test",
    "localhost.evil.test:{p}",
    "127.0.0.1.nip.io:{p}",
    # with a dot at its end a name is another site to browsers, with cookies and storage of its own
    "localhost.:{p}",
    "127.0.0.1.:{p}",
    "house.:{p}",
    "house.local.:{p}",
    # no port, or another
    "127.0.0.1",
    "localhost",
    "house.local",
    "127.0.0.1:{q}",
    "127.0.0.1:0{p}",
    "127.0.0.1:",
    ":{p}",
    "",
    # addresses that are not its own, and its own in other spellings
    "0.0.0.0:{p}",
    "127.0.0.3:{p}",
    "192.168.0.10:{p}",
    "127.1:{p}",
    "2130706433:{p}",
    "0x7f000001:{p}",
    "0177.0.0.1:{p}",
    "[::ffff:127.0.0.1]:{p}",
    "[0:0:0:0:0:0:0:1]:{p}",
    "::1:{p}",
    "[::]:{p}",
    # what a parser might cut off
    "user@127.0.0.1:{p}",
    "127.0.0.1:{p}@evil.test",
    "evil.test#@127.0.0.1:{p}",
    "127.0.0.1:{p}/",
    "127.0.0.1:{p}?",
    "http://127.0.0.1:{p}",
    "127.0.0.1:{p}, evil.test",
    "127.0.0.1 :{p}",
    "127.0.0.1%00:{p}",
    "127.0.0.1:{p}\x00",
    "l\u043ecalhost:{p}",
    "\uff11\uff12\uff17.0.0.1:{p}",
    # none, and two
    None,
    "127.0.0.1:{p}\r\nHost: evil.test",
]
ORIGINS = [
    None,
    "null",
    "",
    "http://evil.test",
    "http://evil.test:{p}",
    "https://127.0.0.1:{p}",
    "ws://127.0.0.1:{p}",
    "file://",
    "chrome-extension://abcdefghijklmnop",
    "http://127.0.0.1",
    "http://127.0.0.1:80",
    "http://127.0.0.1:{q}",
    "http://127.0.0.1:{p}0",
    "http://127.0.0.1:0{p}",
    "http://127.0.0.1:{p}.evil.test",
    "http://127.0.0.1.evil.test:{p}",
    "http://evil127.0.0.1:{p}",
    "http://user@127.0.0.1:{p}",
    "http://127.0.0.1:{p}@evil.test",
    "HTTP://127.0.0.1:{p}",
    "http://127.0.0.1:{p}/",
    "http://127.0.0.1:{p}#",
    "http://127.0.0.1:{p} http://evil.test",
    # its own by another name, which browsers keep apart
    "http://localhost:{p}",
    "http://LOCALHOST:{p}",
    "http://127.0.0.1.:{p}",
    "http://127.0.0.1:{p}\r\nOrigin: http://evil.test",
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("alone")
    served = Served(folder, echo)
    yield served
    served.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("shared")
    served = Served(folder, echo, lan=True)
    yield served
    served.close()


@pytest.fixture(params=["alone", "shared"])
def served(request: pytest.FixtureRequest) -> Served:
    found: Served = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def cookie(served: Served) -> str:
    return served.owner() if hasattr(served, "sharing") else "ondol_language=en"


def spelled(value: str, served: Served) -> str:
    return value.format(p=served.port, q=served.port + 1)


def ask(served: Served, start: str, *headers: str | bytes, body: bytes = b"") -> tuple[int, bytes]:
    """The status of an answer, and all of it."""
    upgrades = UPGRADE[0] in headers
    lines = [start, *headers, *([f"Content-Length: {len(body)}"] if body else [])]
    lines += [] if upgrades else ["Connection: close"]
    sent = b"\r\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    with socket.create_connection(("127.0.0.1", served.port), timeout=WAIT_S) as connection:
        connection.sendall(sent + b"\r\n\r\n" + body)
        answer = connection.recv(65_536)
        while not upgrades and (more := connection.recv(65_536)):
            answer += more
    return int(answer.split()[1]), answer


def get(served: Served, host: str | None, path: str, cookie: str) -> tuple[int, bytes]:
    named = [] if host is None else [f"Host: {spelled(host, served)}"]
    return ask(served, f"GET {path} HTTP/1.1", *named, f"Cookie: {cookie}")


def open_socket(served: Served, host: str | None, origin: str | None, cookie: str) -> tuple[int, bytes]:
    named = [] if host is None else [f"Host: {spelled(host, served)}"]
    asking = [] if origin is None else [f"Origin: {spelled(origin, served)}"]
    return ask(served, "GET /ws HTTP/1.1", *named, *UPGRADE, *asking, f"Cookie: {cookie}")


@pytest.mark.row(20)
def test_its_own_names_are_answered_and_every_other_is_refused_before_who_asks_is_looked_at(
    served: Served, cookie: str
) -> None:
    assert len({*LOOPBACK, *ON_THE_NETWORK, *FOREIGN}) >= 40
    own = [*LOOPBACK, *(ON_THE_NETWORK if hasattr(served, "sharing") else [])]
    for host in own:
        assert get(served, host, "/", cookie)[0] == 200, host
        assert open_socket(served, host, f"http://{host.lower()}", cookie)[0] == 101, host
    for host in [each for each in (*ON_THE_NETWORK, *FOREIGN) if each not in own]:
        for path in ("/", "/health", "/pair", "/static/x"):
            status, answer = get(served, host, path, cookie)
            assert 400 <= status < 500, (host, path)
            assert b"set-cookie" not in answer.lower(), (host, path)
            assert answer.endswith((b"not one of Ondol's own.", b"Invalid HTTP request received.")), host
        # a page of that name would be its own Origin
        status, answer = open_socket(served, host, f"http://{host}", cookie)
        assert 400 <= status < 500, host
        assert b"set-cookie" not in answer.lower(), host


@pytest.mark.row(20)
def test_what_lets_people_in_is_not_taken_under_a_foreign_name(shared: Served) -> None:
    body = f'{{"owner": "{shared.owner_url.partition("#owner=")[2]}"}}'.encode()
    for host in FOREIGN:
        named = [] if host is None else [f"Host: {spelled(host, shared)}"]
        origin = f"Origin: http://{spelled(host or '', shared)}"
        status, answer = ask(shared, "POST /pair HTTP/1.1", *named, origin, body=body)
        assert 400 <= status < 500, host
        assert b"set-cookie" not in answer.lower(), host
    assert shared.owner()


@pytest.mark.row(20)
def test_a_whole_address_in_the_request_line_is_no_way_around_the_host(served: Served) -> None:
    good, bad = f"Host: 127.0.0.1:{served.port}", "Host: evil.test"
    for target in (f"http://127.0.0.1:{served.port}/", "http://evil.test/", "//evil.test/", "*"):
        assert ask(served, f"GET {target} HTTP/1.1", bad)[0] in (400, 403), target
        assert ask(served, f"GET {target} HTTP/1.1", good)[0] in (400, 401, 404), target
    assert ask(served, "GET / HTTP/1.0")[0] == 403


@pytest.mark.row(22)
def test_sockets_and_changes_are_for_pages_of_the_very_same_address(served: Served, cookie: str) -> None:
    assert len(ORIGINS) >= 25
    host = f"Host: 127.0.0.1:{served.port}"
    for origin in ORIGINS:
        status, _ = open_socket(served, "127.0.0.1:{p}", origin, cookie)
        assert status == (400 if origin and "\r" in origin else 403), origin
        asking = [] if origin is None else [f"Origin: {spelled(origin, served)}"]
        sent = [host, *asking, f"Cookie: {cookie}", "Content-Type: application/json"]
        for path in ("/api/conversations/x/delete", "/messages", "/pair", "/api/pairing-code"):
            assert ask(served, f"POST {path} HTTP/1.1", *sent, body=b"{}")[0] == 403, (origin, path)
    for name in ("127.0.0.1", "localhost"):
        assert open_socket(served, f"{name}:{{p}}", f"http://{name}:{{p}}", cookie)[0] == 101


@pytest.mark.row(22)
def test_another_sites_page_gets_nothing_where_the_browser_says_so(served: Served, cookie: str) -> None:
    host, own = f"Host: 127.0.0.1:{served.port}", f"Origin: http://127.0.0.1:{served.port}"
    navigate, document = "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"
    sent = (host, f"Cookie: {cookie}")
    for site in ("cross-site", "same-site", "same-origin, cross-site", "new-site", "Same-Origin"):
        foreign = f"Sec-Fetch-Site: {site}"
        ways = [(), ("Sec-Fetch-Mode: no-cors",), (navigate,), (navigate, "Sec-Fetch-Dest: iframe")]
        ways += [(document,), (navigate, "Sec-Fetch-Dest: object"), ("Sec-Fetch-Mode: cors", document)]
        for way in ways:
            for path in ("/", "/search?q=ab", "/api/export", "/metrics", "/pair"):
                assert ask(served, f"GET {path} HTTP/1.1", *sent, foreign, *way)[0] == 403, (site, way)
        post = (*sent, own, foreign, navigate, document)
        assert ask(served, "POST /messages HTTP/1.1", *post, body=b"{}")[0] == 403
        assert ask(served, "GET /ws HTTP/1.1", *sent, own, *UPGRADE, foreign, navigate, document)[0] == 403
        assert ask(served, "GET / HTTP/1.1", *sent, foreign, navigate, document)[0] == 200  # a link
    for site in ("same-origin", "none"):
        assert ask(served, "GET /search?q=ab HTTP/1.1", *sent, f"Sec-Fetch-Site: {site}")[0] == 200


@pytest.mark.row(35)
def test_even_what_is_no_request_is_answered_with_the_headers(alone: Served) -> None:
    for start in ("nonsense", "GET / HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\nHost: b"):
        status, answer = ask(alone, start)
        assert status == 400
        head = answer.partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
        for name, value in (SECURITY_HEADERS | {"Cache-Control": "no-store"}).items():
            assert f"{name}: {value}".lower() in head
