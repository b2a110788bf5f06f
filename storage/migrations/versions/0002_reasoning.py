"""What a model thought before it answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("messages", sa.Column("reasoning", sa.String()))
