"""Branches: deleted ones that can be brought back, and replies that went on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("messages", sa.Column("deleted_at", sa.DateTime()))
    op.create_index(
        "messages_deleted", "messages", ["deleted_at"], sqlite_where=sa.text("deleted_at IS NOT NULL")
    )
    op.create_table(
        "continuations",
        sa.Column("client_id", sa.String(), primary_key=True),
        sa.Column(
            "message_id", sa.String(32), sa.ForeignKey("messages.id", ondelete="CASCADE"), nullable=False
        ),
    )
    op.create_index("continuations_of_message", "continuations", ["message_id"])
