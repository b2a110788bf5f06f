"""`ondol backup`, `ondol restore` and `ondol check`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from inference.block_files import StoredBlock, root_name
from inference.prefix_store import PrefixStore
from storage.conversations import Conversations
from storage.database import Database
from storage.files import FILE_NAME, sole_user
from storage.migrations import REVISIONS
from storage.sqlite import load_library
from tests.storage.examples import a_turn, an_end, contents
from web.cli import app

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, with one conversation; the current one is where it lies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONDOL_DATA_DIR", str(tmp_path / "data"))
    with closing(Database.open(tmp_path / "data")) as database:
        turn = Conversations(database).begin_turn(a_turn(text="비밀 이야기"))
        Conversations(database).finish(turn.reply.id, an_end())
    return tmp_path / "data"


def ondol(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def conversation_id(folder: Path) -> str:
    with closing(Database.open(folder)) as database:
        return Conversations(database).list_recent()[0].id


def run(folder: Path, *statements: str) -> None:
    with closing(load_library().connect(str(folder / FILE_NAME))) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.fixture
def server(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """One that has the folder, and says so by its address."""
    command = [sys.executable, "-m", "tests.web.hanging_server", str(folder.parent), "60"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("Ondol is at ")
            yield process
        finally:
            process.kill()


def test_beside_a_running_server_a_backup_is_made_and_nothing_is_restored(
    folder: Path, server: subprocess.Popen[str]
) -> None:
    made = ondol("backup", "mine.sqlite3")
    size = Path("mine.sqlite3").stat().st_size
    assert made.stdout == (
        f"mine.sqlite3: 1 conversation, 2 messages, {size:,} bytes (schema {REVISIONS[-1]})\n"
    )
    refused = ondol("restore", "mine.sqlite3")
    assert (refused.exit_code, refused.stderr) == (
        1,
        f"ondol: A server uses the data folder {folder}: end it first.\n",
    )
    assert "end it first" in ondol("check", "--repair").stderr
    looked = ondol("check")
    assert looked.exit_code == 0
    assert "A server runs: unfinished replies" in looked.stdout
    server.terminate()
    assert server.wait(30) == 0
    assert ondol("restore", "mine.sqlite3").exit_code == 0


def test_a_backup_goes_there_and_back(folder: Path) -> None:
    assert ondol("backup", "mine.sqlite3").exit_code == 0
    again = ondol("backup", "mine.sqlite3")
    assert (again.exit_code, again.stderr.count("\n")) == (1, 1)
    assert "--force" in again.stderr
    assert ondol("backup", "mine.sqlite3", "--force").exit_code == 0
    restored = ondol("restore", "mine.sqlite3", "--data-dir", "other")
    assert restored.stdout.startswith("Restored: 1 conversation, 2 messages, ")
    assert conversation_id(Path("other")) == conversation_id(folder)
    kept = ondol("restore", "mine.sqlite3").stdout.splitlines()[1]
    assert Path(kept.partition("is kept: ")[2]).is_file()


def test_help_says_that_the_prefix_cache_is_no_part_of_a_backup() -> None:
    assert "prefix cache is no part of it" in ondol("backup", "--help").stdout


def test_checking_what_is_sound_says_so_and_changes_nothing(folder: Path) -> None:
    before = contents(folder)
    result = ondol("check")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{folder / FILE_NAME}: 1 conversation, 2 messages, ")
    assert len(lines) == 15
    assert all(line.startswith("ok     ") and line.endswith(": none") for line in lines[1:])
    assert contents(folder) == before


def store_a_block(folder: Path, number: int, *owners: str) -> Path:
    store = PrefixStore(folder / "prefix-cache", 10**9)
    store.open()
    block = StoredBlock("model", root_name("model"), (number,))
    store.claim({block.name: frozenset(owners)})
    store.write(block, {"keys": np.zeros(4, np.float32)})
    return folder / "prefix-cache" / f"{block.name}.safetensors"


def test_what_is_left_over_is_found_and_deleted_on_request_alone(folder: Path) -> None:
    own = store_a_block(folder, 1, f"minji/{conversation_id(folder)}", "gone")
    shared, gone = store_a_block(folder, 2, ""), store_a_block(folder, 3, "minji/gone")
    (folder / "imports").mkdir()
    (folder / "backups").mkdir()
    left = [folder / "imports" / "a1", folder / "backups" / "schema-0008-x.sqlite3.a1.part"]
    for file in (*left, folder / "backups" / "schema-0008-x.sqlite3"):
        file.write_text("x")
    run(folder, "DELETE FROM search_entries")
    result = ondol("check")
    assert result.exit_code == 1
    wrong = [line for line in result.stdout.splitlines() if line.startswith("WRONG")]
    assert len(wrong) == 3
    assert wrong[0].startswith("WRONG  texts that are not in the search index: 3 (")
    assert wrong[1] == f"WRONG  files in the prefix cache of conversations that are gone: 1 ({gone.name})"
    assert wrong[2].endswith("cut short: 2 (a1, schema-0008-x.sqlite3.a1.part)")
    assert all(file.exists() for file in (own, shared, gone, *left))
    repaired = ondol("check", "--repair")
    assert repaired.exit_code == 0
    assert (
        "Repaired: made the search index anew from 3 texts, deleted 1 file of the prefix cache,"
        " deleted 2 left files.\n"
    ) in repaired.stdout
    assert [file.exists() for file in (own, shared, gone, *left)] == [True, True, False, False, False]
    assert (folder / "backups" / "schema-0008-x.sqlite3").exists()


def test_what_cannot_be_repaired_safely_is_only_told(folder: Path) -> None:
    run(folder, "UPDATE conversations SET head_id = 'gone'")
    result = ondol("check", "--repair")
    assert result.exit_code == 1
    assert "WRONG  conversations whose head is no message of theirs: 1 (" in result.stdout
    assert "There is nothing here that can be repaired." in result.stdout


def test_a_damaged_file_is_told_with_the_backups_that_there_are(folder: Path) -> None:
    (folder / "backups").mkdir()
    ondol("backup", str(folder / "backups" / "mine.sqlite3"))
    (folder / FILE_NAME).write_bytes(b"no database" * 1000)
    for arguments in (("check",), ("check", "--repair")):
        result = ondol(*arguments)
        assert result.exit_code == 1
        assert result.stdout.splitlines() == [
            f"WRONG  {folder / FILE_NAME} is not a database.",
            "Nothing else was looked at. `ondol restore FILE` puts a backup in its place.",
            f"       {folder / 'backups' / 'mine.sqlite3'}",
        ]


def test_unfinished_replies_are_a_fault_only_while_no_server_runs(folder: Path) -> None:
    run(folder, "UPDATE messages SET status = 'running' WHERE role = 'assistant'")
    assert "unfinished replies, which the next start marks as interrupted: 1 (" in ondol("check").stdout
    with sole_user(folder):
        assert ondol("check").exit_code == 0


@pytest.mark.parametrize("command", [["backup", "x.sqlite3"], ["check"], ["check", "--repair"]])
def test_without_conversations_there_is_nothing_to_do_and_nothing_is_made(
    folder: Path, command: list[str]
) -> None:
    result = ondol(*command, "--data-dir", "nowhere")
    assert (result.exit_code, result.stderr) == (1, "ondol: There are no conversations in nowhere.\n")
    assert not Path("nowhere").exists()


def test_nothing_that_was_written_is_printed(folder: Path) -> None:
    run(folder, "DELETE FROM search_entries")
    assert "비밀" not in ondol("check").output
