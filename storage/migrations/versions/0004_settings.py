"""Presets, what was chosen for a conversation and by a person, and pinned messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("params", sa.JSON()))
    op.add_column("conversations", sa.Column("thinking", sa.Boolean()))
    op.add_column("messages", sa.Column("pinned", sa.Boolean(), nullable=False, server_default=sa.text("0")))
    op.create_table(
        "presets",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
    )
    op.create_table(
        "defaults",
        sa.Column("person", sa.String(32), primary_key=True),
        sa.Column("params", sa.JSON()),
        sa.Column("thinking", sa.Boolean()),
        sa.Column("preset_id", sa.String(64), sa.ForeignKey("presets.id", ondelete="SET NULL")),
    )
