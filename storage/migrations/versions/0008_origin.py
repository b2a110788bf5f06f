"""Which program a conversation was imported from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("origin", sa.String()))
