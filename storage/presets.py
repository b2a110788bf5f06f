"""System prompts with names, to begin chats with.

Every method is one transaction and blocks: call it from a pool thread. Any may raise `StorageError`, and then
nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import delete, select

from storage.conversations import utc_now
from storage.database import Database
from storage.errors import NotFound
from storage.records import PresetRecord
from storage.tables import PRESET_NAME_LENGTH, Preset

HOUSE = "house"
"""The one person that there is so far."""


class Presets:
    """The presets of one database."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    def list_for(self, person: str = HOUSE) -> list[PresetRecord]:
        """Those that this person may choose, the oldest first."""
        with self._database.read() as session:
            found = select(Preset).where(Preset.shared | (Preset.person == person))
            return [row.record() for row in session.scalars(found.order_by(Preset.created_at, Preset.id))]

    def list_shared(self) -> list[PresetRecord]:
        """Those of everybody, the oldest first."""
        with self._database.read() as session:
            found = select(Preset).where(Preset.shared).order_by(Preset.created_at, Preset.id)
            return [row.record() for row in session.scalars(found)]

    def get(self, preset_id: str) -> PresetRecord:
        """Raises `NotFound`."""
        with self._database.read() as session:
            preset = session.get(Preset, preset_id)
            if preset is None:
                raise NotFound(f"There is no preset {preset_id}.")
            return preset.record()

    def save(self, preset_id: str, name: str, text: str, shared: bool, person: str = HOUSE) -> PresetRecord:
        """Keeps a preset under an id that the client made: a new one, or in place of what it was."""
        with self._database.write() as session:
            preset = session.get(Preset, preset_id)
            if preset is None:
                preset = Preset(id=preset_id, person=person, created_at=self._clock())
                session.add(preset)
            preset.name, preset.text, preset.shared = name[:PRESET_NAME_LENGTH], text, shared
            return preset.record()

    def delete(self, preset_id: str) -> bool:
        """False when there was none. Conversations keep the text that they began with."""
        with self._database.write() as session:
            gone = delete(Preset).where(Preset.id == preset_id)
            return session.scalar(gone.returning(Preset.id)) is not None
