"""What all tables have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON
from sqlalchemy.orm import DeclarativeBase

from storage.columns import TokenIds, UtcDateTime

ID_LENGTH = 32


class Table(DeclarativeBase):
    """The base of all tables."""

    type_annotation_map = {
        datetime: UtcDateTime(),
        tuple[int, ...]: TokenIds(),
        dict[str, Any]: JSON(none_as_null=True),
    }
