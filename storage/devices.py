"""Devices that were let in, each a person's, with the session that its browser holds.

A session's token is never stored, only its SHA-256: whoever reads the database cannot take a session over.
Every method is one transaction and blocks: call it from a pool thread. Any may raise `StorageError`, and then
nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import Select, Update, func, select, update
from sqlalchemy.orm import Session

from storage.conversations import utc_now
from storage.database import Database
from storage.errors import NotFound, TooManyDevices
from storage.people_tables import DEVICE_NAME_LENGTH, PERSON_NAME_LENGTH, Device, Person
from storage.records import OWNER, DeviceKind, DeviceRecord

SESSION_AGE = timedelta(days=365)
"""A session ends this long after it began, whatever the browser does with its cookie."""

MAX_DEVICES = 25


class Devices:
    """The devices of one database."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    def add(
        self,
        token_hash: bytes,
        name: str,
        person_id: str | None = None,
        replacing: str | None = None,
        person_name: str = "",
        earlier_hash: bytes | None = None,
    ) -> DeviceRecord:
        """Keeps a device that was let in. `replacing` is the id of what the same browser is until now, and
        `earlier_hash` that of a token that it brings, whose session may be over.

        Without a `person_id` it is somebody's who was not here yet and is called `person_name`. With no name
        either it is whose it was before, so that a guest who comes back finds what is theirs; where it was
        nobody's, they are called like the device.

        Raises `NotFound` for an unknown person, and `TooManyDevices` for a guest's device that would be the
        26th. The owner is never kept out by devices that only the owner can disconnect: of 25, the one that
        was not seen for the longest time makes room.
        """
        now = self._clock()
        with self._database.write() as session:
            if replacing is not None:
                session.execute(_revocation(replacing, now))
            kind: DeviceKind = "owner" if person_id == OWNER else "guest"
            _make_room(session, now, kind)
            if person_id is None and not person_name and earlier_hash is not None:
                was = select(Device.person_id).where(Device.token_hash == earlier_hash)
                person_id = session.scalar(was.where(Device.person_id != OWNER))
            person = _person(session, person_id, person_name or name, now)
            device = Device(
                id=uuid4().hex,
                token_hash=token_hash,
                name=name[:DEVICE_NAME_LENGTH],
                kind=kind,
                created_at=now,
                last_seen_at=now,
                person_id=person.id,
            )
            session.add(device)
            return device.record()

    def find(self, token_hash: bytes) -> DeviceRecord | None:
        """The device that holds this token; None when there is none, or the token has expired."""
        with self._database.read() as session:
            device = session.scalar(_valid(self._clock()).where(Device.token_hash == token_hash))
            return None if device is None else device.record()

    def is_valid(self, device_id: str) -> bool:
        """Whether the device's session has not ended."""
        with self._database.read() as session:
            return session.scalar(_valid(self._clock()).where(Device.id == device_id)) is not None

    def rename(self, device_id: str, name: str) -> None:
        """Gives a device a name of the owner's. Raises `NotFound` where its session has ended."""
        with self._database.write() as session:
            device = session.scalar(_valid(self._clock()).where(Device.id == device_id))
            if device is None:
                raise NotFound("There is no such device.")
            device.name = name[:DEVICE_NAME_LENGTH]

    def list_valid(self) -> list[DeviceRecord]:
        """Every device whose session has not ended, the newest first."""
        newest_first = _valid(self._clock()).order_by(Device.created_at.desc(), Device.id.desc())
        with self._database.read() as session:
            return [row.record() for row in session.scalars(newest_first)]

    def saw(self, device_id: str) -> None:
        """Notes that the device was here now."""
        with self._database.write() as session:
            session.execute(update(Device).where(Device.id == device_id).values(last_seen_at=self._clock()))

    def revoke(self, device_id: str) -> bool:
        """Ends a device's session. False when there was none."""
        with self._database.write() as session:
            return session.scalar(_revocation(device_id, self._clock()).returning(Device.id)) is not None

    def revoke_others(self, person_id: str, kept_id: str) -> list[str]:
        """Ends the sessions of a person's devices but for one; the ids of those that had one."""
        ending = update(Device).where(
            Device.person_id == person_id, Device.id != kept_id, Device.revoked_at.is_(None)
        )
        with self._database.write() as session:
            return list(session.scalars(ending.values(revoked_at=self._clock()).returning(Device.id)))


def _person(session: Session, person_id: str | None, name: str, now: datetime) -> Person:
    if person_id is None:
        person = Person(id=uuid4().hex, name=name[:PERSON_NAME_LENGTH], created_at=now)
        session.add(person)
        session.flush()
        return person
    found = session.get(Person, person_id)
    if found is None:
        raise NotFound(f"There is no person {person_id}.")
    return found


def _make_room(session: Session, now: datetime, kind: DeviceKind) -> None:
    valid = _valid(now).order_by(Device.last_seen_at, Device.id)
    count = session.scalar(select(func.count()).select_from(valid.order_by(None).subquery())) or 0
    if count < MAX_DEVICES:
        return
    if kind != "owner":
        raise TooManyDevices(
            f"{count} of at most {MAX_DEVICES} devices are connected. "
            "The owner has to disconnect one before another can be."
        )
    for device in session.scalars(valid.limit(count - MAX_DEVICES + 1)):
        device.revoked_at = now


def _valid(now: datetime) -> Select[Device]:
    return select(Device).where(Device.revoked_at.is_(None), Device.created_at > now - SESSION_AGE)


def _revocation(device_id: str, now: datetime) -> Update:
    return update(Device).where(Device.id == device_id, Device.revoked_at.is_(None)).values(revoked_at=now)
