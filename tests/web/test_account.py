"""What people change of themselves: a name, a password, and sessions that end with it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import httpx2
import pytest

from storage.people import People
from tests.web.serving import OTHER_ADDRESS, Served, cookie_of
from tests.web.test_device_list import close_code
from web.pairing import Invited
from web.passwords import derive, matches
from web.session_checks import SERVICE_RESTART, SESSION_OVER

Serve = Callable[..., Served]

PASSWORD = "온돌 warm floor 9"
CHANGE = "/api/you/password"


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve(lan=True)


def minji(served: Served) -> str:
    return cookie_of(served.join(code=served.sharing.codes.issue(Invited(None, "Minji"))))


def test_a_password_is_kept_as_scrypt_makes_it() -> None:
    kept = derive(PASSWORD)
    assert PASSWORD not in kept
    assert kept != derive(PASSWORD)
    assert matches(PASSWORD, kept)
    assert matches(unicodedata.normalize("NFD", PASSWORD), kept)  # as some keyboards write it
    assert not matches(PASSWORD + " ", kept)
    # RFC 7914, section 12: scrypt("password", "NaCl", N = 1024, r = 8, p = 16), its first 32 bytes.
    vector = "scrypt$10$8$16$TmFDbA==$/bq+HJ00cgB4VucZDQHp/nxq18vII3gw53N2Y0s3MWI="
    assert matches("password", vector)


@pytest.mark.row(32)
def test_a_name_and_a_password_connect_a_further_device(served: Served) -> None:
    phone = minji(served)
    assert served.join(name="Minji", password=PASSWORD).status_code == 403
    answer = served.post(CHANGE, {"password": PASSWORD}, Cookie=phone)
    assert answer.status_code == 204
    phone = cookie_of(answer)
    tablet = cookie_of(served.join(name=" Minji ", password=PASSWORD))
    assert tablet != phone
    page = served.get("/you", Cookie=tablet).text
    assert page.count('class="you-device"') == 2
    for name, password in (("Minji", PASSWORD + "x"), ("Jun", PASSWORD), ("", PASSWORD)):
        refused = served.join(OTHER_ADDRESS, name=name, password=password)
        assert refused.status_code in (400, 403)
    assert "set-cookie" not in refused.headers


@pytest.mark.row(32)
def test_a_new_password_ends_every_session_and_this_browsers_gets_a_new_id(served: Served) -> None:
    phone = minji(served)
    phone = cookie_of(served.post(CHANGE, {"password": PASSWORD}, Cookie=phone))
    tablet = cookie_of(served.join(name="Minji", password=PASSWORD))
    other = served.guest()
    here, there, others = (served.ready_client(each) for each in (phone, tablet, other))
    wrong = served.post(CHANGE, {"password": "a new one, longer", "current": "guess"}, Cookie=phone)
    assert wrong.status_code == 403
    answer = served.post(CHANGE, {"password": "a new one, longer", "current": PASSWORD}, Cookie=phone)
    assert answer.status_code == 204
    assert close_code(there) == SESSION_OVER
    assert close_code(here) == SERVICE_RESTART
    for ended in (phone, tablet):
        assert served.get("/", Cookie=ended).status_code == 401
    assert served.get("/", Cookie=cookie_of(answer)).status_code == 200
    others.settle()
    assert served.join(name="Minji", password=PASSWORD).status_code == 403


@pytest.mark.row(32)
def test_a_browser_that_disconnects_itself_is_out(served: Served) -> None:
    phone, other = minji(served), served.guest()
    socket = served.ready_client(phone)
    (own,) = re.findall(r'data-device-id="(\w+)"', served.get("/you", Cookie=phone).text)
    foreign = served.post(f"/api/you/devices/{own}/disconnect", {}, Cookie=other)
    missing = served.post("/api/you/devices/nobody/disconnect", {}, Cookie=other)
    assert (foreign.status_code, foreign.text.replace(own, "nobody")) == (404, missing.text)
    answer = served.post(f"/api/you/devices/{own}/disconnect", {}, Cookie=phone)
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert close_code(socket) == SESSION_OVER
    assert served.get("/", Cookie=phone).status_code == 401


def test_a_password_needs_a_name_and_eight_characters(served: Served) -> None:
    owner, phone = served.owner(), minji(served)
    assert served.post(CHANGE, {"password": PASSWORD}, Cookie=owner).status_code == 409
    for password in ("short", "x" * 257, 8):
        assert served.post(CHANGE, {"password": password}, Cookie=phone).status_code == 400
    assert served.post("/api/you/rename", {"name": "Halmeoni"}, Cookie=owner).status_code == 204
    owner = cookie_of(served.post(CHANGE, {"password": PASSWORD}, Cookie=owner))
    phone = cookie_of(served.join(name="Halmeoni", password=PASSWORD))
    assert "Connect a device" in served.get("/", Cookie=phone).text


def test_half_a_surrogate_pair_is_no_password(served: Served) -> None:
    phone = minji(served)
    bodies = {CHANGE: '{"password": "%s"}', "/pair": '{"name": "Minji", "password": "%s"}'}
    for path, body in bodies.items():
        headers = {"Origin": served.url, "Cookie": phone}
        answer = httpx2.post(served.url + path, content=body % (r"\ud800" * 9), headers=headers)
        assert answer.status_code == 400


def test_guessing_a_password_takes_ever_longer_and_the_code_still_works(serve: Serve) -> None:
    served = serve(lan=True, waits_by=lambda: 0.0)
    phone = minji(served)
    served.post(CHANGE, {"password": PASSWORD}, Cookie=phone)
    answers = [served.join(name="Minji", password=f"guess number {n}") for n in range(5)]
    assert [each.status_code for each in answers] == [403, 403, 403, 429, 429]
    assert int(answers[3].headers["retry-after"]) >= 1
    assert served.join(OTHER_ADDRESS, name="Minji", password=PASSWORD).status_code == 204


def test_the_owner_removes_a_password_that_was_forgotten(served: Served) -> None:
    owner, phone = served.owner(), minji(served)
    phone = cookie_of(served.post(CHANGE, {"password": PASSWORD}, Cookie=phone))
    person = next(each for each in People(served.database).list_all() if each.name == "Minji")
    assert served.post(f"/api/people/{person.id}/remove-password", {}, Cookie=phone).status_code == 403
    assert served.post(f"/api/people/{person.id}/remove-password", {}, Cookie=owner).status_code == 200
    assert served.join(name="Minji", password=PASSWORD).status_code == 403
    assert served.post(CHANGE, {"password": "another one"}, Cookie=phone).status_code == 204
