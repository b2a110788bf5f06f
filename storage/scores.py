"""What was computed about the tokens of replies, so that nobody computes it twice.

Every method is one transaction, blocks, and may raise `StorageError`, after which nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from storage.conversations import utc_now
from storage.database import Database
from storage.lookup import find_live
from storage.records import NewScores, ScoresRecord
from storage.tables import TokenScores


class Scores:
    """The scores in one database, at most one set a reply."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    def get(self, message_id: str) -> ScoresRecord | None:
        """Those of a reply; None where there are none, or it has gone on since. Raises `NotFound`."""
        with self._database.read() as session:
            message = find_live(session, message_id)
            row = session.get(TokenScores, message_id)
            if row is None or row.tokens != len(message.token_ids or ()):
                return None
            return row.record()

    def keep(self, message_id: str, new: NewScores) -> None:
        """In the place of what was kept before. Raises `NotFound`."""
        with self._database.write() as session:
            find_live(session, message_id)
            session.merge(
                TokenScores(
                    message_id=message_id,
                    model=new.model,
                    computed_by=dict(new.computed_by),
                    tokens=new.tokens,
                    scores=new.data,
                    created_at=self._clock(),
                )
            )
