from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import text

from storage.database import Database
from storage.errors import StorageError
from storage.tables import Conversation, Message

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def add(database: Database, **changes: object) -> None:
    """A conversation with one message."""
    values = {"role": "assistant", "status": "done", "text": "", "created_at": NOON} | changes
    with database.write() as session:
        session.add(
            Conversation(id="c", title="", system_prompt="", created_at=values["created_at"], updated_at=NOON)
        )
        session.flush()
        session.add(Message(id="m", conversation_id="c", **values))


def test_times_come_back_in_utc(database: Database) -> None:
    add(database, created_at=NOON.astimezone(timezone(timedelta(hours=9))))
    with database.read() as session:
        found = session.get_one(Message, "m").created_at
    assert (found, found.tzinfo) == (NOON, UTC)


@pytest.mark.parametrize("ids", [None, (), (0,), (1, 2**31 - 1, -1), tuple(range(5000))])
def test_token_ids_come_back(database: Database, ids: tuple[int, ...] | None) -> None:
    add(database, token_ids=ids)
    with database.read() as session:
        assert session.get_one(Message, "m").token_ids == ids


def test_token_ids_are_little_endian_int32(database: Database) -> None:
    add(database, token_ids=(1, 258))
    with database.read() as session:
        assert session.scalar(text("SELECT token_ids FROM messages")) == b"\1\0\0\0\2\1\0\0"


def test_absent_json_is_null(database: Database) -> None:
    add(database, usage=None, timings={"ttft": 0.5, "왜": ["캐시"]})
    with database.read() as session:
        assert session.scalar(text("SELECT usage IS NULL FROM messages")) == 1
        assert session.get_one(Message, "m").timings == {"ttft": 0.5, "왜": ["캐시"]}


@pytest.mark.parametrize("wrong", [{"status": "lost"}, {"role": "system"}, {"parent_id": "absent"}])
def test_rows_that_make_no_sense_are_refused(database: Database, wrong: dict[str, str]) -> None:
    with pytest.raises(StorageError):
        add(database, **wrong)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("UPDATE messages SET text = '' WHERE status IN ('pending', 'running')", "messages_unfinished"),
        ("SELECT * FROM messages WHERE client_id = 'a'", "messages_client_id"),
        ("SELECT * FROM messages WHERE parent_id = 'a'", "messages_children"),
        ("DELETE FROM messages WHERE conversation_id = 'a'", "messages_of_conversation"),
        (
            "SELECT sum(json_extract(usage, '$.cached_tokens')) FROM messages "
            "WHERE usage IS NOT NULL AND finished_at >= '2026-11-29'",
            "messages_usage",
        ),
        ("SELECT * FROM conversations ORDER BY updated_at DESC, id DESC", "conversations_by_update"),
    ],
)
def test_frequent_queries_use_their_index(database: Database, query: str, index: str) -> None:
    with database.write() as session:
        plan = session.execute(text(f"EXPLAIN QUERY PLAN {query}")).all()
    assert any(index in step.detail for step in plan)
