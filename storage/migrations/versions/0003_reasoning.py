"""What a model thought before it answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("messages", sa.Column("reasoning", sa.String()))
