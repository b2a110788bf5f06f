"""How the schema came to be, one revision a file under `versions`, run by Alembic."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
"""Every revision from the first to the newest, so that a start needs no Alembic to know them."""
