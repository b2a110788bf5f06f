"""Sums of what replies cost, without reading the replies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_index(
        "messages_usage",
        "messages",
        [
            "finished_at",
            sa.text("json_extract(usage, '$.prompt_tokens')"),
            sa.text("json_extract(usage, '$.cached_tokens')"),
            sa.text("json_extract(usage, '$.completion_tokens')"),
        ],
        sqlite_where=sa.text("usage IS NOT NULL"),
    )
