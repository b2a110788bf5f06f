"""How likely a model found the tokens of a reply."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "token_scores",
        sa.Column(
            "message_id", sa.String(32), sa.ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("computed_by", sa.JSON()),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("scores", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
    )
