from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import sleep

import pytest
from sqlalchemy import text

from storage.database import Database
from storage.files import FILE_NAME

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("sign", ["", FILE_NAME, f"{FILE_NAME}-wal"])
def test_a_first_start_that_was_killed_can_be_started_again(folder: Path, sign: str) -> None:
    command = [sys.executable, "-m", "tests.storage.writer", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as writer:
        while not (folder / sign).exists() and writer.poll() is None:
            sleep(0.0005)
        writer.kill()
    with closing(Database.open(folder)) as database, database.read() as session:
        assert session.scalar(text("PRAGMA integrity_check")) == "ok"
