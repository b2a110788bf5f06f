from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from inference.models.folders import folder_bytes, private_folder, publish, remove_stale


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_private_folder_is_removed_at_the_end(tmp_path: Path) -> None:
    with private_folder(tmp_path) as private:
        (private / "part").write_bytes(b"half")
        assert private.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_publishing_replaces_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").touch()
    with private_folder(tmp_path) as private:
        whole = private / "whole"
        whole.mkdir()
        (whole / "new").write_text("new")
        publish(whole, target)
    assert [file.name for file in target.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [target]


def test_folders_of_ended_processes_are_removed(tmp_path: Path) -> None:
    stale = tmp_path / f".fetch-{ended_process()}-{int(time.time())}-abc"
    stale.mkdir()
    (stale / "part").touch()
    remove_stale(tmp_path)
    assert not stale.exists()


def test_a_folder_older_than_its_process_is_removed(tmp_path: Path) -> None:
    reused_number = tmp_path / f".fetch-{os.getpid()}-1000000000-abc"
    reused_number.mkdir()
    remove_stale(tmp_path)
    assert not reused_number.exists()


def test_folders_of_living_processes_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / ".fetch-notes").mkdir()
    with private_folder(tmp_path) as private:
        remove_stale(tmp_path)
        assert private.exists()
    assert {file.name for file in tmp_path.iterdir()} == {"model", ".fetch-notes"}


def test_bytes_of_all_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "one").write_bytes(b"x" * 5000)
    (tmp_path / "two").write_bytes(b"x" * 3)
    assert folder_bytes(tmp_path) == 5003
    assert folder_bytes(tmp_path / "missing") == 0
