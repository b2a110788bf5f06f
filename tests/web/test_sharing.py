"""A server that is shared on the network, spoken to from several addresses of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookies import SimpleCookie
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from storage.devices import Devices
from tests.web.conftest import echo
from tests.web.serving import OTHER_ADDRESS, Served

Serve = Callable[..., Served]


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve(lan=True)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that nobody pairs with."""
    folder: Path = tmp_path_factory.mktemp("closed")
    served = Served(folder, echo, lan=True)
    yield served
    served.close()


def test_without_a_session_every_page_is_the_pairing_page(closed: Served) -> None:
    for base in (closed.url, closed.lan_url):
        finding = ("/conversations", "/search?q=ab", "/search/quick?q=ab")
        for path in ("/", "/c/nobody", *finding, "/api/pairing-code", "/ws", "/pair/", "//", "/static"):
            response = httpx2.get(base + path)
            assert response.status_code == 401, path
            assert "Connect this device" in response.text
            assert "everyone on this network can read along" in response.text
            assert "composer" not in response.text.partition("</head>")[2]


def test_without_a_session_nothing_is_changed_and_no_socket_opens(closed: Served) -> None:
    verbs = ("delete", "restore", "rename", "pin", "archive")
    for path in ("/api/pairing-code", *(f"/api/conversations/x/{verb}" for verb in verbs), "/"):
        response = closed.post(path, {})
        assert response.status_code == 401
        assert response.json() == {"error": "This device is not connected."}
    with pytest.raises(InvalidStatus, match="403"):
        closed.client()


@pytest.mark.parametrize(
    "cookie", ["ondol_{port}=", "ondol_{port}=x", "ondol={port}", "ondol_1=x", ";;=", "\x80"]
)
def test_a_cookie_that_is_no_session_is_none(closed: Served, cookie: str) -> None:
    sent = cookie.format(port=closed.port)
    assert httpx2.get(closed.url, headers={"Cookie": sent.encode("latin-1")}).status_code == 401


def test_health_and_static_files_need_no_session(closed: Served) -> None:
    assert closed.get("/health").status_code in (200, 503)
    asset = closed.get("/").text.partition('src="')[2].partition('"')[0]
    assert closed.get(asset).status_code == 200


def test_it_answers_to_its_own_names_alone(closed: Served) -> None:
    port = closed.port
    for host in (f"127.0.0.1:{port}", f"{OTHER_ADDRESS}:{port}", f"house:{port}", f"House.local:{port}"):
        assert closed.get("/", Host=host).status_code == 401, host
    for host in (f"192.168.0.10:{port}", f"127.0.0.3:{port}", f"evil.test:{port}", "house", f"house.:{port}"):
        for path in ("/", "/health", "/pair"):
            assert closed.get(path, Host=host).status_code in (400, 403), host


def test_other_devices_are_told_its_addresses_and_last_the_name_that_multicast_dns_has(
    closed: Served,
) -> None:
    told = [closed.lan_url, f"http://house.local:{closed.port}"]
    assert closed.sharing.addresses() == told
    for address in told:
        host = address.removeprefix("http://")
        assert closed.get("/pair", Host=host).json()["connected"] is False


def test_a_code_is_not_taken_from_another_origin(served: Served) -> None:
    code = served.sharing.codes.issue()
    for origin in (served.lan_url, "http://evil.test", "null", f"https://127.0.0.1:{served.port}"):
        assert served.post("/pair", {"code": code}, Origin=origin).status_code == 403
    assert served.join(code=code).status_code == 204


def test_the_session_cookie_is_for_this_server_and_its_own_pages_only(served: Served) -> None:
    response = served.join(code=served.sharing.codes.issue())
    morsels = SimpleCookie(response.headers["set-cookie"])
    assert list(morsels) == [f"ondol_{served.port}"]
    morsel = morsels[f"ondol_{served.port}"]
    assert len(morsel.value) >= 43  # 256 bits in base64
    assert morsel["httponly"]
    assert morsel["samesite"].lower() == "strict"
    assert morsel["path"] == "/"
    assert morsel["max-age"] == str(365 * 24 * 3600)
    assert response.content == b""


def test_with_a_session_the_page_and_the_socket_are_there_on_every_address(served: Served) -> None:
    cookie = served.guest()
    for base in (served.url, served.lan_url):
        assert "<textarea" in httpx2.get(base, headers={"Cookie": cookie}).text
    client = served.ready_client(cookie)
    client.say_and_wait("hello")


@pytest.mark.row(31)
def test_a_code_is_used_up_by_one_of_twenty_who_try_at_once(served: Served) -> None:
    code = served.sharing.codes.issue()
    with ThreadPoolExecutor(20) as pool:
        sources = [f"127.0.0.{number}" for number in range(10, 30)]
        answers = list(pool.map(lambda source: served.join(source, code=code), sources))
    assert sorted(answer.status_code for answer in answers) == [204] + [403] * 19
    assert "already used" in served.join(code=code).json()["error"]


def test_guessing_gets_slow_for_the_one_who_guesses(served: Served) -> None:
    code = served.sharing.codes.issue()
    answers = [served.join("127.0.0.9", code="12345678") for _ in range(30)]
    assert [answer.status_code for answer in answers[:3]] == [403] * 3
    assert [answer.status_code for answer in answers].count(429) > 20
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert "Wait" in refused.json()["error"]
    assert served.join("127.0.0.8", code=code).status_code == 204


@pytest.mark.parametrize(
    "body", [{}, [], {"code": 7}, {"code": ""}, {"code": "1", "owner": "x"}, {"code": "1" * 65}]
)
def test_a_body_that_is_no_code_is_refused_and_costs_nothing(served: Served, body: object) -> None:
    for _ in range(5):
        response = served.post("/pair", body)
        assert response.status_code == 400
        assert response.json()["error"] == "A code of eight digits is needed."
    assert served.join(code=served.sharing.codes.issue()).status_code == 204


def test_the_owners_link_makes_several_browsers_the_owners(served: Served) -> None:
    for cookie in (served.owner(), served.owner()):
        page = served.get("/", Cookie=cookie).text
        assert "Connect a device" in page
        sheet = served.post("/api/pairing-code", {}, Cookie=cookie)
        assert sheet.status_code == 200
        assert served.lan_url in sheet.text
        assert "<svg" in sheet.text
        assert "Safari on iPhone" in sheet.text


def test_a_guest_connects_nobody(served: Served) -> None:
    cookie = served.guest()
    assert "Connect a device" not in served.get("/", Cookie=cookie).text
    response = served.post("/api/pairing-code", {}, Cookie=cookie)
    assert response.status_code == 403
    assert response.json() == {"error": "Only the owner connects devices."}


def test_a_wrong_owners_secret_lets_nobody_in(served: Served) -> None:
    answers = [served.join(owner=secret).status_code for secret in ("x", served.owner_url[-20:], "")]
    assert answers == [403, 403, 400]


@pytest.mark.row(32)
def test_a_browser_that_joins_again_has_a_new_session_and_the_old_one_is_over(served: Served) -> None:
    guest = served.guest()
    joined = served.join(owner=served.owner_url.partition("#owner=")[2], cookie=guest)
    owner = joined.headers["set-cookie"].partition(";")[0]
    assert owner != guest
    assert served.get("/", Cookie=guest).status_code == 401
    assert served.get("/", Cookie=owner).status_code == 200
    assert len(Devices(served.database).list_valid()) == 1


@pytest.mark.row(32)
def test_a_revoked_device_is_out(served: Served) -> None:
    cookie = served.guest()
    devices = Devices(served.database)
    devices.revoke(devices.list_valid()[0].id)
    assert served.get("/", Cookie=cookie).status_code == 401
    with pytest.raises(InvalidStatus, match="403"):
        served.client(cookie)


def test_a_session_survives_a_restart_and_codes_and_owners_links_do_not(serve: Serve) -> None:
    served = serve(lan=True)
    cookie, code, secret = (
        served.guest(),
        served.sharing.codes.issue(),
        served.owner_url.partition("#owner=")[2],
    )
    served.close()
    again = serve(lan=True, port=served.port)
    assert again.get("/", Cookie=cookie).status_code == 200
    assert again.join(code=code).status_code == 403
    assert again.join(owner=secret).status_code == 403


def test_neither_sessions_nor_secrets_are_on_the_disk(served: Served, tmp_path: Path) -> None:
    code = served.sharing.codes.issue()
    cookie = served.guest()
    served.join(code=code)
    served.owner()
    written = b"".join(file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())
    assert b"Safari on iPhone" in written
    for secret in (cookie.partition("=")[2], code, served.owner_url.partition("#owner=")[2]):
        assert secret.encode() not in written


def test_the_owners_pages_are_told_of_a_new_device_and_guests_are_not(served: Served) -> None:
    owner, guest = served.ready_client(served.owner()), served.ready_client(served.guest())
    served.guest()
    assert owner.wait_for("device_connected")["name"] == "Safari on iPhone"
    guest.settle()
    assert "device_connected" not in {frame["type"] for frame in guest.frames}


def test_a_server_that_is_not_shared_pairs_with_nobody(serve: Serve) -> None:
    served = serve()
    assert served.join(code="12345678").status_code == 404
    assert served.post("/api/pairing-code", {}).status_code == 404
    page = served.get("/")
    assert "set-cookie" not in page.headers
    assert "Connect a device" not in page.text
    assert "read along" not in page.text
