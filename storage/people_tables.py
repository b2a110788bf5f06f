"""The rows about people as typed tables: who they are, their devices, and what they like."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from sqlalchemy import CheckConstraint, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from storage.records import (
    OWNER,
    Choices,
    DefaultsRecord,
    DeviceKind,
    DeviceRecord,
    PersonRecord,
    PresetRecord,
)
from storage.table import ID_LENGTH, Table

PERSON_NAME_LENGTH = 80
DEVICE_NAME_LENGTH = 80
PRESET_NAME_LENGTH = 60


class Person(Table):
    """A row of `people`. The owner, whose id is `OWNER`, is there from the start, and has no name yet.

    Rows of other tables name people without a foreign key: SQLite cannot add a constraint later.
    """

    __tablename__ = "people"

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    name: Mapped[str] = mapped_column(String(PERSON_NAME_LENGTH))
    created_at: Mapped[datetime]
    password: Mapped[str | None]

    def record(self) -> PersonRecord:
        """A frozen copy."""
        return PersonRecord(self.id, self.name, self.created_at, self.password)


class Device(Table):
    """A row of `devices`: one browser's session. `token_hash` is the SHA-256 of what its cookie holds."""

    __tablename__ = "devices"
    __table_args__ = (
        CheckConstraint("kind IN ('owner', 'guest')", name="devices_kind"),
        Index("devices_token_hash", "token_hash", unique=True),
    )

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    token_hash: Mapped[bytes]
    name: Mapped[str] = mapped_column(String(DEVICE_NAME_LENGTH))
    kind: Mapped[str]
    created_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    person_id: Mapped[str] = mapped_column(String(ID_LENGTH), default=OWNER, server_default=OWNER)

    def record(self) -> DeviceRecord:
        """A frozen copy."""
        return DeviceRecord(
            id=self.id,
            name=self.name,
            kind=cast(DeviceKind, self.kind),
            created_at=self.created_at,
            last_seen_at=self.last_seen_at,
            revoked_at=self.revoked_at,
            person_id=self.person_id,
        )


class Preset(Table):
    """A row of `presets`. `person` is whose it is."""

    __tablename__ = "presets"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(PRESET_NAME_LENGTH))
    text: Mapped[str]
    shared: Mapped[bool]
    person: Mapped[str] = mapped_column(String(ID_LENGTH))
    created_at: Mapped[datetime]

    def record(self) -> PresetRecord:
        """A frozen copy."""
        return PresetRecord(self.id, self.name, self.text, self.shared, self.person, self.created_at)


class Defaults(Table):
    """A row of `defaults`: what one person's new chats begin with."""

    __tablename__ = "defaults"

    person: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    params: Mapped[dict[str, Any] | None]
    thinking: Mapped[bool | None]
    preset_id: Mapped[str | None] = mapped_column(ForeignKey("presets.id", ondelete="SET NULL"))

    def record(self) -> DefaultsRecord:
        """A frozen copy."""
        return DefaultsRecord(Choices(self.params or {}, self.thinking), self.preset_id)
