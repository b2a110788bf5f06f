"""What the stored replies cost together.

Every method is one transaction and blocks: call it from a pool thread. Any may raise `StorageError`.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Integer, func, literal_column, select

from storage.database import Database
from storage.records import UsageTotals
from storage.tables import HAS_USAGE, USAGE_TERMS, Message


class Usage:
    """The usage of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def totals(self, since: datetime | None = None) -> UsageTotals:
        """Of all replies that are stored, or of those that ended since then."""
        query = (
            select(
                func.count(),
                *[func.coalesce(func.sum(literal_column(term, Integer())), 0) for term in USAGE_TERMS],
            )
            .select_from(Message)
            .where(HAS_USAGE)
        )
        if since is not None:
            query = query.where(Message.finished_at >= since)
        with self._database.read() as session:
            return UsageTotals(*map(int, session.execute(query).one()))
