"""People: whose a device, a conversation and a message are, and what is shared with the house."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

CONNECTED = "revoked_at IS NULL AND kind = 'guest'"


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("password", sa.String()),
    )
    op.execute("INSERT INTO people (id, name, created_at) VALUES ('owner', '', CURRENT_TIMESTAMP)")
    _give_devices_to_people()
    _give_conversations_to_the_owner()
    op.add_column("messages", sa.Column("person_id", sa.String(32)))
    for table in ("presets", "defaults"):
        op.execute(f"UPDATE {table} SET person = 'owner'")


def _give_devices_to_people() -> None:
    """Every guest's device was somebody's; whose together nobody knows, so each is a person for now."""
    op.add_column("devices", sa.Column("person_id", sa.String(32), nullable=False, server_default="owner"))
    op.execute(
        "INSERT INTO people (id, name, created_at)"
        f" SELECT id, name, created_at FROM devices WHERE {CONNECTED}"
    )
    op.execute("UPDATE devices SET person_id = id WHERE kind = 'guest'")


def _give_conversations_to_the_owner() -> None:
    """Where others were let in, everybody has seen and written in everything so far, and goes on so."""
    op.add_column(
        "conversations", sa.Column("person_id", sa.String(32), nullable=False, server_default="owner")
    )
    op.add_column("conversations", sa.Column("shared", sa.String()))
    op.execute(
        f"UPDATE conversations SET shared = 'write' WHERE EXISTS (SELECT 1 FROM devices WHERE {CONNECTED})"
    )
    op.drop_index("conversations_listed", "conversations")
    op.create_index(
        "conversations_listed",
        "conversations",
        ["person_id", "archived", "pinned", "updated_at", "id"],
        sqlite_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "conversations_shared",
        "conversations",
        ["updated_at", "id"],
        sqlite_where=sa.text("shared IS NOT NULL AND deleted_at IS NULL"),
    )
