"""Finding: where a conversation is listed, and the full-text index over what is stored already."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import sqlalchemy as sa
from alembic import op

from storage.folding import fold
from storage.grams import grams
from storage.search_index import KEEP, MAKE, number_of

revision = "0006"
down_revision = "0005"

CHUNK = 500
BUFFER_BYTES = 8_000_000
USUAL_BYTES = 1_048_576
WHOSE = """
WITH RECURSIVE gone(id) AS (
    SELECT id FROM messages WHERE deleted_at IS NOT NULL
    UNION SELECT messages.id FROM messages JOIN gone ON messages.parent_id = gone.id
)
SELECT NULL, id, created_at, 0 AS place FROM conversations
UNION ALL
SELECT id, NULL, created_at, 1 + (role <> 'user') FROM messages
WHERE status NOT IN ('pending', 'running') AND id NOT IN (SELECT id FROM gone)
ORDER BY 3, 4
"""


def upgrade() -> None:
    for name in ("pinned", "archived"):
        op.add_column(
            "conversations", sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.text("0"))
        )
    op.add_column("conversations", sa.Column("deleted_at", sa.DateTime()))
    op.create_index(
        "conversations_listed",
        "conversations",
        ["archived", "pinned", "updated_at", "id"],
        sqlite_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "conversations_deleted",
        "conversations",
        ["deleted_at"],
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index("messages_by_model", "messages", ["model"], sqlite_where=sa.text("model IS NOT NULL"))
    op.create_table(
        "search_entries",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("message_id", sa.String(32), sa.ForeignKey("messages.id", ondelete="CASCADE")),
        sa.Column("conversation_id", sa.String(32), sa.ForeignKey("conversations.id", ondelete="CASCADE")),
        sa.CheckConstraint("(message_id IS NULL) <> (conversation_id IS NULL)", name="search_entries_one"),
    )
    for statement in MAKE:
        op.execute(statement)
    _index_what_is_stored(op.get_bind())
    op.create_index("search_entries_messages", "search_entries", ["message_id"], unique=True)
    op.create_index("search_entries_titles", "search_entries", ["conversation_id"], unique=True)


def _index_what_is_stored(connection: sa.Connection) -> None:
    """A chunk at a time: all texts together may be larger than the memory."""
    _set(connection, "hashsize", BUFFER_BYTES)
    entries = _entries(connection)
    while chunk := list(islice(entries, CHUNK)):
        connection.execute(
            sa.text(
                "INSERT INTO search_entries (number, message_id, conversation_id)"
                " VALUES (:number, :message_id, :conversation_id)"
            ),
            chunk,
        )
        connection.execute(sa.text(KEEP), chunk)
    _set(connection, "hashsize", USUAL_BYTES)
    connection.exec_driver_sql("INSERT INTO search_index(search_index) VALUES ('optimize')")


def _set(connection: sa.Connection, name: str, value: int) -> None:
    setting = "INSERT INTO search_index(search_index, rank) VALUES (:name, :value)"
    connection.execute(sa.text(setting), {"name": name, "value": value})


def _entries(connection: sa.Connection) -> Iterator[dict[str, object]]:
    last = None
    for message_id, conversation_id, created_at, _ in connection.exec_driver_sql(WHOSE):
        terms = grams(fold(_text(connection, message_id, conversation_id)))
        if message_id is not None and not terms:
            continue
        number = number_of(datetime.fromisoformat(created_at).replace(tzinfo=UTC))
        last = number if last is None else max(last + 1, number)
        yield {"number": last, "message_id": message_id, "conversation_id": conversation_id, "grams": terms}


def _text(connection: sa.Connection, message_id: str | None, conversation_id: str | None) -> str:
    found: str | None
    if message_id is not None:
        found = connection.exec_driver_sql("SELECT text FROM messages WHERE id = ?", (message_id,)).scalar()
    else:
        query = "SELECT title FROM conversations WHERE id = ?"
        found = connection.exec_driver_sql(query, (conversation_id,)).scalar()
    return found or ""
