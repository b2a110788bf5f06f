"""The people of the house. A person is let in with a device, and keeps what is theirs without one.

Every method is one transaction and blocks: call it from a pool thread. Any may raise `StorageError`, and then
nothing was changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select

from storage.database import Database
from storage.errors import NotFound
from storage.people_tables import PERSON_NAME_LENGTH, Device, Person
from storage.records import OWNER, PersonRecord
from storage.tables import Conversation


class People:
    """The people of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, person_id: str) -> PersonRecord:
        """Raises `NotFound`."""
        with self._database.read() as session:
            return _find(session.get(Person, person_id), person_id).record()

    def list_all(self) -> list[PersonRecord]:
        """The owner, then the others by when they came: those who have a device or a conversation."""
        connected = select(Device.person_id).where(Device.revoked_at.is_(None))
        used = connected.union(select(Conversation.person_id))
        people = select(Person).where((Person.id == OWNER) | Person.id.in_(used))
        people = people.order_by(Person.id != OWNER, Person.created_at, Person.id)
        with self._database.read() as session:
            return [row.record() for row in session.scalars(people)]

    def names(self) -> Mapping[str, str]:
        """What everybody is called, by their ids; empty for an owner without a name."""
        with self._database.read() as session:
            return {person_id: name for person_id, name in session.execute(select(Person.id, Person.name))}

    def called(self, name: str) -> PersonRecord:
        """The one person who is called so, or has that id; the owner without a name is called "owner". Raises
        `NotFound`, which names everybody, also where several are called so.
        """
        everybody = self.list_all()
        found = [person for person in everybody if name in (person.id, person.name)]
        if len(found) == 1:
            return found[0]
        people = ", ".join(f"{person.name or person.id} ({person.id})" for person in everybody)
        if not found:
            raise NotFound(f"Nobody is called {name}. There are: {people}.")
        raise NotFound(f"{len(found)} people are called {name}. Their ids tell them apart: {people}.")

    def rename(self, person_id: str, name: str) -> None:
        """Raises `NotFound`."""
        with self._database.write() as session:
            _find(session.get(Person, person_id), person_id).name = name[:PERSON_NAME_LENGTH]

    def with_password(self, name: str) -> list[PersonRecord]:
        """Everybody who is called so and has a password."""
        people = select(Person).where(Person.name == name, Person.password.is_not(None))
        with self._database.read() as session:
            return [row.record() for row in session.scalars(people.order_by(Person.id))]

    def have_passwords(self) -> bool:
        """Whether anybody has one."""
        with self._database.read() as session:
            return session.scalar(select(Person.id).where(Person.password.is_not(None)).limit(1)) is not None

    def set_password(self, person_id: str, password: str | None) -> None:
        """Keeps what was derived from a new password; None: there is none from now on. Raises `NotFound`."""
        with self._database.write() as session:
            _find(session.get(Person, person_id), person_id).password = password


def _find(found: Person | None, person_id: str) -> Person:
    if found is None:
        raise NotFound(f"There is no person {person_id}.")
    return found
