"""System prompts with names, to begin chats with.

Every method is one transaction and blocks: call it from a pool thread. Any may raise `StorageError`, and then
nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from hashlib import sha256

from sqlalchemy import select
from sqlalchemy.orm import Session

from storage.conversations import utc_now
from storage.database import Database
from storage.errors import NotAllowed, NotFound
from storage.people_tables import PRESET_NAME_LENGTH, Preset
from storage.records import OWNER, PresetRecord
from storage.table import ID_LENGTH


class Presets:
    """The presets of one database."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    def list_for(self, person: str = OWNER) -> list[PresetRecord]:
        """Those that this person may choose, the oldest first."""
        with self._database.read() as session:
            found = select(Preset).where(Preset.shared | (Preset.person == person))
            return [row.record() for row in session.scalars(found.order_by(Preset.created_at, Preset.id))]

    def list_shared(self) -> list[PresetRecord]:
        """Those of everybody, the oldest first."""
        with self._database.read() as session:
            found = select(Preset).where(Preset.shared).order_by(Preset.created_at, Preset.id)
            return [row.record() for row in session.scalars(found)]

    def get(self, preset_id: str, person: str = OWNER) -> PresetRecord:
        """One that this person may choose. Raises `NotFound`."""
        with self._database.read() as session:
            preset = session.get(Preset, preset_id)
            if preset is None or not (preset.shared or preset.person == person):
                raise NotFound(f"There is no preset {preset_id}.")
            return preset.record()

    def save(self, preset_id: str, name: str, text: str, shared: bool, person: str = OWNER) -> PresetRecord:
        """Keeps a preset under an id that the client made: a new one, or in place of what it was.

        An id that another person's hidden preset has is as free as any: the new one gets its own, always the
        same. Raises `NotAllowed` for a shared preset of another person.
        """
        with self._database.write() as session:
            preset = _own(session, preset_id, person)
            if preset is None:
                if session.get(Preset, preset_id) is not None:
                    preset_id = _id_beside(preset_id, person)
                preset = session.get(Preset, preset_id)
            if preset is None:
                preset = Preset(id=preset_id, person=person, created_at=self._clock())
                session.add(preset)
            preset.name, preset.text, preset.shared = name[:PRESET_NAME_LENGTH], text, shared
            return preset.record()

    def delete(self, preset_id: str, person: str = OWNER) -> bool:
        """False when there was none. Conversations keep the text that they began with. Raises `NotAllowed` as
        `save` does.
        """
        with self._database.write() as session:
            preset = _own(session, preset_id, person)
            if preset is not None:
                session.delete(preset)
            return preset is not None


def _own(session: Session, preset_id: str, person: str) -> Preset | None:
    preset = session.get(Preset, preset_id)
    if preset is None or preset.person == person:
        return preset
    if preset.shared:
        raise NotAllowed("This preset is another person’s, who shares it: only they can change it.")
    return None


def _id_beside(preset_id: str, person: str) -> str:
    return sha256(f"{person}/{preset_id}".encode()).hexdigest()[:ID_LENGTH]
