from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.conversations import Conversations
from storage.database import Database


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    opened = Database.open(folder)
    yield opened
    opened.close()


@pytest.fixture
def conversations(database: Database) -> Conversations:
    return Conversations(database)
