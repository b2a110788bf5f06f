from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from storage.database import Database
from storage.devices import Devices
from storage.errors import StorageError

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
    phone = devices.add(FIRST, "Safari on iPhone", "guest")
    owner = devices.add(SECOND, "Firefox on Linux", "owner")
    assert (devices.find(FIRST), devices.find(SECOND)) == (phone, owner)
    assert devices.find(b"3" * 32) is None
    assert {each.id for each in devices.list_valid()} == {phone.id, owner.id}


def test_a_revoked_session_is_over(devices: Devices) -> None:
    phone = devices.add(FIRST, "Safari on iPhone", "guest")
    assert devices.revoke(phone.id) is True
    assert devices.find(FIRST) is None
    assert devices.list_valid() == []
    assert devices.revoke(phone.id) is False


def test_a_browser_that_is_let_in_again_has_one_session(devices: Devices) -> None:
    guest = devices.add(FIRST, "Firefox on Linux", "guest")
    owner = devices.add(SECOND, "Firefox on Linux", "owner", replacing=guest.id)
    assert devices.find(FIRST) is None
    assert devices.list_valid() == [owner]


def test_a_session_ends_after_a_year_however_often_it_was_used(devices: Devices, clock: Clock) -> None:
    phone = devices.add(FIRST, "Safari on iPhone", "guest")
    clock.now = NOON + timedelta(days=364)
    devices.saw(phone.id)
    seen = devices.find(FIRST)
    assert seen is not None
    assert seen.last_seen_at == clock.now
    clock.now = NOON + timedelta(days=365)
    assert devices.find(FIRST) is None


def test_a_session_belongs_to_one_device(devices: Devices) -> None:
    devices.add(FIRST, "Safari on iPhone", "guest")
    with pytest.raises(StorageError):
        devices.add(FIRST, "Chrome on Android", "guest")
