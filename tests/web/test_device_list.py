"""The owner's list of devices, and what becomes of a session that ends.

There is no password, so that no session can outlive one; and a session that a browser brings along is never
taken over at pairing, see `test_sharing`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable
from datetime import timedelta
from queue import Queue

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from storage.conversations import utc_now
from storage.devices import Devices
from tests.web.client import WAIT_S, Client
from tests.web.serving import Served
from web.device_names import device_words
from web.languages import load_languages
from web.session_checks import ROUND_S, SERVICE_RESTART, SESSION_OVER

Serve = Callable[..., Served]


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve(lan=True)


class Rounds:
    """A pause that ends when the test says so."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._paused: Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        over = asyncio.Event()
        self._paused.put((asyncio.get_running_loop(), over))
        await over.wait()

    def let(self) -> None:
        loop, over = self._paused.get(timeout=WAIT_S)
        loop.call_soon_threadsafe(over.set)


def ids(served: Served) -> dict[str, str]:
    """The ids of all devices by their kind; of several, the newest."""
    return {device.kind: device.id for device in reversed(Devices(served.database).list_valid())}


def close_code(client: Client) -> int | None:
    """Read until the server closes; its close code."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            client.receive()
    return client.connection.protocol.close_code


@pytest.mark.row(32)
def test_a_disconnected_device_is_out_on_all_its_tabs_within_a_second(served: Served) -> None:
    owner, guest, other = served.owner(), served.guest(), served.guest()
    tabs = [served.ready_client(guest) for _ in range(3)]
    staying = [served.ready_client(owner), served.ready_client(other)]
    phone = sorted(Devices(served.database).list_valid(), key=lambda device: device.created_at)[1]
    start = time.monotonic()
    answer = served.post(f"/api/devices/{phone.id}/disconnect", {}, Cookie=owner)
    assert [close_code(tab) for tab in tabs] == [SESSION_OVER] * 3
    assert time.monotonic() - start < 1
    assert answer.status_code == 200
    assert phone.id not in answer.text
    assert served.get("/", Cookie=guest).status_code == 401
    assert served.get("/pair", Cookie=guest).json() == {"connected": False}
    with pytest.raises(InvalidStatus, match="403"):
        served.client(guest)
    for client in staying:
        client.settle()
    assert served.post(f"/api/devices/{phone.id}/disconnect", {}, Cookie=owner).status_code == 200


def test_the_owner_cannot_disconnect_the_browser_that_is_looked_with(served: Served) -> None:
    owner = served.owner()
    own = ids(served)["owner"]
    answer = served.post(f"/api/devices/{own}/disconnect", {}, Cookie=owner)
    assert answer.status_code == 409
    assert "another one of yours" in answer.json()["error"]
    listed = served.get("/api/devices", Cookie=owner).text
    assert "this browser" in listed
    assert "disconnect-device" not in listed
    assert served.post(f"/api/devices/{own}/disconnect", {}, Cookie=served.owner()).status_code == 200
    assert served.get("/", Cookie=owner).status_code == 401


def test_a_device_is_renamed_and_the_name_is_escaped(served: Served) -> None:
    owner, _ = served.owner(), served.guest()
    path = f"/api/devices/{ids(served)['guest']}/rename"
    answer = served.post(path, {"name": " <b>부엌</b> tablet "}, Cookie=owner)
    assert "&lt;b&gt;부엌&lt;/b&gt; tablet</span>" in answer.text
    for body in ({"name": ""}, {"name": "  "}, {"name": "x" * 81}, {"name": "a\nb"}, {"name": 7}, {}, []):
        refused = served.post(path, body, Cookie=owner)
        assert (refused.status_code, refused.json()["error"]) == (
            400,
            "A name of 1 to 80 characters is needed.",
        )
    assert served.post("/api/devices/nobody/rename", {"name": "x"}, Cookie=owner).status_code == 404


def test_what_the_owner_called_a_device_is_not_translated() -> None:
    korean = next(language for language in load_languages() if language.code == "ko")
    for name in ("Tablet on desk", "Today", "Chrome on the wall"):
        assert device_words(korean, name) == name
    assert device_words(korean, "Safari on iPhone") != "Safari on iPhone"


def test_a_guest_sees_and_changes_no_devices(served: Served) -> None:
    guest = served.guest()
    own = ids(served)["guest"]
    assert served.get("/api/devices", Cookie=guest).status_code == 403
    for path, body in ((f"/api/devices/{own}/rename", {"name": "x"}), (f"/api/devices/{own}/disconnect", {})):
        assert served.post(path, body, Cookie=guest).status_code == 403
        assert served.post(path, body).status_code == 401
    assert served.get("/", Cookie=guest).status_code == 200


def test_who_is_here_and_who_was_is_told(served: Served) -> None:
    owner = served.owner()
    here, _ = served.guest(), served.guest()
    served.ready_client(here)
    listed = served.get("/api/devices", Cookie=owner).text
    assert re.search(r"3\s+of\s+25", listed)
    assert listed.count("here now") == 2  # the owner's own browser counts
    assert listed.count("last seen") == 1


def test_the_26th_device_is_refused_with_the_numbers(served: Served) -> None:
    devices = Devices(served.database)
    for n in range(25):
        devices.add(bytes([n]) * 32, "Safari on iPhone", None)
    refused = served.join(code=served.sharing.codes.issue())
    assert refused.status_code == 409
    assert refused.json()["error"].startswith("25 of at most 25 devices are connected.")
    assert "set-cookie" not in refused.headers
    assert served.get("/", Cookie=served.owner()).status_code == 200
    assert len(devices.list_valid()) == 25


def test_an_expired_session_ends_its_sockets_at_the_next_half_hourly_round(serve: Serve) -> None:
    late = [timedelta()]
    rounds = Rounds()
    served = serve(lan=True, clock=lambda: utc_now() + late[0], pause=rounds)
    owner, guest = served.ready_client(served.owner()), served.ready_client(served.guest())
    rounds.let()
    for client in (owner, guest):
        client.settle()
    late[0] = timedelta(days=364)
    guest_again = served.ready_client(served.guest())
    late[0] = timedelta(days=366)
    rounds.let()
    assert [close_code(client) for client in (owner, guest)] == [SESSION_OVER] * 2
    guest_again.settle()
    assert ROUND_S <= 30 * 60
    assert set(rounds.asked) == {ROUND_S}


@pytest.mark.row(32)
def test_a_browser_that_joins_again_gets_its_pages_back_with_the_new_session(served: Served) -> None:
    guest = served.guest()
    tab = served.ready_client(guest)
    assert served.join(owner=served.owner_url.partition("#owner=")[2], cookie=guest).status_code == 204
    assert close_code(tab) == SERVICE_RESTART


def test_a_server_that_is_not_shared_tells_every_page_that_it_is_let_in(serve: Serve) -> None:
    assert serve().get("/pair").json() == {"connected": True}
