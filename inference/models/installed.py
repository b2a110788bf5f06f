"""Which models are on this disk, as far as a tokenizer of theirs is. Reads small files only; torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from inference.errors import ModelUnusable
from inference.models.catalogue import CATALOGUE
from inference.models.gguf_model import DESCRIPTION
from inference.models.json_files import read_object
from inference.models.prepared import PreparedModel

MOST_MODELS = 32


@dataclass(frozen=True, slots=True)
class InstalledTokenizer:
    """A model by a name that no other in its list has, and its tokenizer.json."""

    name: str
    file: Path


def installed_tokenizers(models_dir: Path, loaded: PreparedModel | None = None) -> list[InstalledTokenizer]:
    """The loaded model's first, then those of the model cache by their names; 32 at most."""
    found = [InstalledTokenizer(loaded.name, loaded.tokenizer_file)] if loaded is not None else []
    cached = sorted([*_gguf_files(models_dir), *_snapshots(models_dir)], key=lambda model: model.name.lower())
    return list(islice(_distinct([*found, *cached]), MOST_MODELS))


def _gguf_files(models_dir: Path) -> Iterator[InstalledTokenizer]:
    known = {f"gguf-{entry.wheel.member_sha256[:16]}": entry.name for entry in CATALOGUE.values()}
    for file in sorted(models_dir.glob("gguf-*/tokenizer.json")):
        folder = file.parent
        yield InstalledTokenizer(known.get(folder.name) or _described(folder) or folder.name, file)


def _described(folder: Path) -> str:
    try:
        name = read_object(folder / DESCRIPTION).get("name")
    except (ModelUnusable, OSError):
        return ""
    return name if isinstance(name, str) else ""


def _snapshots(models_dir: Path) -> Iterator[InstalledTokenizer]:
    """Of each repository the newest snapshot."""
    for repository in (models_dir / "hub").glob("models--*"):
        files = [*repository.glob("snapshots/*/tokenizer.json")]
        if files:
            name = repository.name.removeprefix("models--").replace("--", "/", 1)
            yield InstalledTokenizer(name, max(files, key=lambda file: file.parent.stat().st_mtime_ns))


def _distinct(models: Iterable[InstalledTokenizer]) -> Iterator[InstalledTokenizer]:
    """Every file once, every name once: a second model of a name is told by its folder."""
    files, names = set[Path](), set[str]()
    for model in models:
        if model.file in files:
            continue
        if model.name in names:
            model = replace(model, name=f"{model.name} ({model.file.parent.name})")
        files.add(model.file)
        names.add(model.name)
        yield model
