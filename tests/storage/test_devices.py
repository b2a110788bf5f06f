from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from storage.database import Database
from storage.devices import Devices
from storage.errors import NotFound, StorageError, TooManyDevices
from storage.people import People
from storage.records import OWNER

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
FIRST, SECOND = b"1" * 32, b"2" * 32


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def devices(database: Database, clock: Clock) -> Devices:
    return Devices(database, clock)


def test_a_device_is_found_by_the_hash_of_its_session(devices: Devices) -> None:
    phone = devices.add(FIRST, "Safari on iPhone", None)
    owner = devices.add(SECOND, "Firefox on Linux", "owner")
    assert (devices.find(FIRST), devices.find(SECOND)) == (phone, owner)
    assert devices.find(b"3" * 32) is None
    assert {each.id for each in devices.list_valid()} == {phone.id, owner.id}


def test_a_revoked_session_is_over(devices: Devices) -> None:
    phone = devices.add(FIRST, "Safari on iPhone", None)
    assert devices.revoke(phone.id) is True
    assert devices.find(FIRST) is None
    assert devices.list_valid() == []
    assert devices.revoke(phone.id) is False


def test_a_browser_that_is_let_in_again_has_one_session(devices: Devices) -> None:
    guest = devices.add(FIRST, "Firefox on Linux", None)
    owner = devices.add(SECOND, "Firefox on Linux", "owner", replacing=guest.id)
    assert devices.find(FIRST) is None
    assert devices.list_valid() == [owner]


def test_a_session_ends_after_a_year_however_often_it_was_used(devices: Devices, clock: Clock) -> None:
    phone = devices.add(FIRST, "Safari on iPhone", None)
    clock.now = NOON + timedelta(days=364)
    devices.saw(phone.id)
    seen = devices.find(FIRST)
    assert seen is not None
    assert seen.last_seen_at == clock.now
    clock.now = NOON + timedelta(days=365)
    assert devices.find(FIRST) is None


def test_a_session_belongs_to_one_device(devices: Devices) -> None:
    devices.add(FIRST, "Safari on iPhone", None)
    with pytest.raises(StorageError):
        devices.add(FIRST, "Chrome on Android", None)


def test_of_25_devices_none_is_a_26th(devices: Devices, clock: Clock) -> None:
    let_in = [devices.add(bytes([n]) * 32, "Safari on iPhone", None) for n in range(25)]
    with pytest.raises(TooManyDevices, match=r"^25 of at most 25 devices are connected\."):
        devices.add(b"x" * 32, "Chrome on Android", None)
    again = devices.add(b"y" * 32, "Safari on iPhone", None, replacing=let_in[0].id)
    devices.revoke(let_in[1].id)
    devices.add(b"z" * 32, "Chrome on Android", None)
    assert len(devices.list_valid()) == 25
    assert devices.is_valid(again.id)
    clock.now = NOON + timedelta(days=365)
    devices.add(b"w" * 32, "Chrome on Android", None)


def test_the_owner_is_let_in_in_place_of_the_device_not_seen_for_the_longest(
    devices: Devices, clock: Clock
) -> None:
    let_in = [devices.add(bytes([n]) * 32, "Safari on iPhone", None) for n in range(25)]
    clock.now = NOON + timedelta(hours=1)
    for device in let_in[:7] + let_in[8:]:
        devices.saw(device.id)
    owner = devices.add(b"x" * 32, "Firefox on Linux", "owner")
    left = {device.id for device in devices.list_valid()}
    assert left == {owner.id} | {device.id for device in let_in} - {let_in[7].id}


def test_a_device_has_the_name_that_it_was_given_last(devices: Devices) -> None:
    phone = devices.add(FIRST, "Safari on iPhone", None)
    devices.rename(phone.id, "엄마 폰")
    assert [device.name for device in devices.list_valid()] == ["엄마 폰"]
    devices.revoke(phone.id)
    with pytest.raises(NotFound):
        devices.rename(phone.id, "Nobody’s")


def test_a_device_is_a_persons(devices: Devices, database: Database) -> None:
    people = People(database)
    phone = devices.add(FIRST, "Safari on iPhone", person_name="Minji")
    tablet = devices.add(SECOND, "Safari on iPad", phone.person_id)
    owner = devices.add(b"x" * 32, "Firefox on Linux", OWNER)
    assert (phone.kind, tablet.kind, owner.kind) == ("guest", "guest", "owner")
    assert tablet.person_id == phone.person_id
    assert [(each.id, each.name) for each in people.list_all()] == [(OWNER, ""), (phone.person_id, "Minji")]
    with pytest.raises(NotFound):
        devices.add(b"y" * 32, "Safari on iPhone", "nobody")


def test_a_guest_who_comes_back_in_the_same_browser_is_who_they_were(devices: Devices) -> None:
    phone = devices.add(FIRST, "Safari on iPhone")
    devices.revoke(phone.id)
    again = devices.add(SECOND, "Safari on iPhone", earlier_hash=FIRST)
    other = devices.add(b"x" * 32, "Safari on iPhone", person_name="Jun", earlier_hash=SECOND)
    owner = devices.add(b"y" * 32, "Firefox on Linux", OWNER)
    guest = devices.add(b"z" * 32, "Firefox on Linux", earlier_hash=b"y" * 32)
    assert again.person_id == phone.person_id
    assert len({phone.person_id, other.person_id, owner.person_id, guest.person_id}) == 4
