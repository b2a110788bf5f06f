"""Conversations and their messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("system_prompt", sa.String(), nullable=False),
        sa.Column("head_id", sa.String(32)),
        sa.Column("cut_id", sa.String(32)),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
    )
    op.create_index("conversations_by_update", "conversations", ["updated_at", "id"])
    op.create_table(
        "messages",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column(
            "conversation_id",
            sa.String(32),
            sa.ForeignKey("conversations.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("parent_id", sa.String(32), sa.ForeignKey("messages.id")),
        sa.Column("client_id", sa.String()),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("finished_at", sa.DateTime()),
        sa.Column("model", sa.String()),
        sa.Column("finish_reason", sa.String()),
        sa.Column("error", sa.String()),
        sa.Column("params", sa.JSON()),
        sa.Column("usage", sa.JSON()),
        sa.Column("timings", sa.JSON()),
        sa.Column("context", sa.JSON()),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("token_ids", sa.LargeBinary()),
        sa.CheckConstraint("role IN ('user', 'assistant')", name="messages_role"),
        sa.CheckConstraint("status IN ('pending', 'running', 'done', 'interrupted')", name="messages_status"),
    )
    op.create_index("messages_of_conversation", "messages", ["conversation_id"])
    op.create_index("messages_children", "messages", ["parent_id"])
    op.create_index(
        "messages_client_id",
        "messages",
        ["client_id"],
        unique=True,
        sqlite_where=sa.text("client_id IS NOT NULL"),
    )
    op.create_index(
        "messages_unfinished",
        "messages",
        ["status"],
        sqlite_where=sa.text("status IN ('pending', 'running')"),
    )
