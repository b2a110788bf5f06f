from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import sleep

import pytest
from sqlalchemy import text

from storage.conversations import Conversations
from storage.database import Database
from storage.files import FILE_NAME
from storage.records import Status

ROOT = Path(__file__).parents[2]


def write_and_kill(folder: Path, lines: int) -> list[list[str]]:
    """What a writer had acknowledged when it was killed, at some moment after that many lines."""
    command = [sys.executable, "-m", "tests.storage.writer", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        said += writer.stdout.readlines()
    return [line.split() for line in said if line.endswith("\n")]


@pytest.mark.parametrize("lines", [0, 1, 2, 3, 5, 8, 40])
def test_a_killed_writer_loses_nothing_that_it_acknowledged(folder: Path, lines: int) -> None:
    said = write_and_kill(folder, lines)
    longest = {reply: int(kept) for what, reply, kept in said if what != "turn"}
    finished = {reply for what, reply, _ in said if what == "finish"}
    with closing(Database.open(folder)) as database:
        conversations = Conversations(database)
        conversations.interrupt_leftovers()
        turns = [(client, reply) for what, client, reply in said if what == "turn"]
        for client, reply in turns:
            kept = conversations.message(reply)
            assert conversations.message(kept.parent_id or "").client_id == client
            assert kept.text == "글" * len(kept.text)
            assert len(kept.text) >= longest.get(reply, 0)
            assert kept.status is Status.DONE or reply not in finished
        with database.read() as session:
            assert session.scalar(text("SELECT count(*) FROM messages WHERE role = 'user'")) in (
                len(turns),
                len(turns) + 1,
            )
            assert session.scalar(text("PRAGMA integrity_check")) == "ok"
            assert session.execute(text("PRAGMA foreign_key_check")).all() == []


@pytest.mark.parametrize("sign", ["", FILE_NAME, f"{FILE_NAME}-wal"])
def test_a_first_start_that_was_killed_can_be_started_again(folder: Path, sign: str) -> None:
    command = [sys.executable, "-m", "tests.storage.writer", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as writer:
        while not (folder / sign).exists() and writer.poll() is None:
            sleep(0.0005)
        writer.kill()
    with closing(Database.open(folder)) as database, database.read() as session:
        assert session.scalar(text("PRAGMA integrity_check")) == "ok"
