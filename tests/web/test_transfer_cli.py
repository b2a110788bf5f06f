"""`ondol export` and `ondol import`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from storage.database import Database
from storage.devices import Devices
from storage.transfer.exporting import Exports
from tests.storage.exports import chatgpt_simple
from web.cli import app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a file of three conversations; data is kept in `data`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONDOL_DATA_DIR", str(tmp_path / "data"))
    chats = [chatgpt_simple(0, "왜?"), chatgpt_simple(1), {"no": "chat"}]
    (tmp_path / "conversations.json").write_text(json.dumps(chats))
    (tmp_path / "good.json").write_text(json.dumps(chats[:2]))
    return tmp_path


def ondol(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_importing_tells_of_every_conversation_and_fails_where_one_is_refused(folder: Path) -> None:
    result = ondol("import", "conversations.json")
    assert [line[:13].strip() for line in result.stdout.splitlines()] == ["imported", "imported", "refused"]
    assert "No. 0" in result.stdout
    assert result.stdout.splitlines()[2].endswith("Open WebUI or llama.cpp.")
    assert result.exit_code == 1
    again = ondol("import", "good.json")
    assert [line[:13].strip() for line in again.stdout.splitlines()] == ["already here"] * 2
    assert again.exit_code == 0


def test_importing_goes_on_with_the_next_file(folder: Path) -> None:
    (folder / "bad.json").write_text("hello")
    result = ondol("import", "absent.json", "bad.json", "good.json")
    assert result.exit_code == 1
    assert "absent.json: The file cannot be read (No such file or directory)." in result.stderr
    assert "bad.json: This is no JSON" in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout.count("imported") == 2


def test_exporting_while_a_server_has_the_database_and_importing_elsewhere(folder: Path) -> None:
    ondol("import", "good.json")
    with closing(Database.open(folder / "data")) as running:
        result = ondol("export", "--output", "all.json")
        assert (result.exit_code, result.stdout) == (0, "all.json\n")
        assert Exports(running).count() == 2
    assert ondol("import", "all.json", "--data-dir", "other").stdout.count("imported") == 2
    assert ondol("export", "--data-dir", "other", "--output", "again.json").exit_code == 0
    assert (folder / "again.json").read_bytes() == (folder / "all.json").read_bytes()
    assert list(folder.glob("*.part")) == []


def test_exporting_one_or_all_as_markdown(folder: Path) -> None:
    ondol("import", "good.json")
    with closing(Database.open(folder / "data")) as database:
        chat = next(each for each in Exports(database).everything() if each.title == "No. 0")
    one = ondol("export", "--format", "markdown", "--conversation", chat.id, "--output", "-")
    assert one.stdout.startswith("# No. 0\n")
    assert "왜?" in one.stdout
    named = ondol("export", "--format", "markdown", "--conversation", chat.id)
    assert (folder / named.stdout.strip()).read_text().startswith("# No. 0\n")
    with zipfile.ZipFile(folder / ondol("export", "--format", "markdown").stdout.strip()) as archive:
        assert len(archive.namelist()) == 2


def test_one_persons_conversations_are_taken_in_and_written_by_their_name(folder: Path) -> None:
    with closing(Database.open(folder / "data")) as database:
        devices = Devices(database)
        people = [
            devices.add(token, "a phone", person_name=name).person_id
            for token, name in ((b"1", "민지"), (b"2", "Twin"), (b"3", "Twin"))
        ]
    theirs = ondol("import", "good.json", "--person", "민지")
    assert theirs.stdout.count("imported") == 2
    assert ondol("export", "--person", "민지", "--output", "theirs.json").exit_code == 0
    assert ondol("export", "--output", "all.json").exit_code == 0
    assert (folder / "theirs.json").read_bytes() == (folder / "all.json").read_bytes()
    nothing = ondol("export", "--person", "owner", "--output", "-")
    assert json.loads(nothing.stdout)["conversations"] == []
    everybody = f"owner (owner), 민지 ({people[0]}), Twin ({people[1]}), Twin ({people[2]})."
    refused = ondol("export", "--person", "Suji")
    assert refused.stderr == f"ondol: Nobody is called Suji. There are: {everybody}\n"
    refused = ondol("import", "good.json", "--person", "Twin")
    assert refused.stderr == f"ondol: 2 people are called Twin. Their ids tell them apart: {everybody}\n"
    assert ondol("export", "--person", people[1], "--output", "-").exit_code == 0
    assert ondol("export", "--person", people[1], "--conversation", "x").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--conversation", "absent"], "There is no conversation absent."),
        (["--data-dir", "nowhere"], "There are no conversations in nowhere."),
        (
            ["--output", "no/such/folder.json"],
            "no/such/folder.json cannot be written (No such file or directory).",
        ),
    ],
)
def test_what_cannot_be_exported_is_told_in_one_sentence(
    folder: Path, arguments: list[str], sentence: str
) -> None:
    ondol("import", "good.json")
    result = ondol("export", *arguments)
    assert (result.exit_code, result.stderr) == (1, f"ondol: {sentence}\n")
    assert not (folder / "nowhere").exists()
