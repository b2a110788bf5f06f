from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference.models.locate import Sources, prepare
from inference.models.prepared import PreparedModel
from inference.types import ModelStatus
from tests.inference.models.fake_hub import FakeHub


class Preparing:
    """`prepare` into a temporary cache, with everything it reported."""

    def __init__(self, models_dir: Path) -> None:
        self.models_dir = models_dir
        self.reports: list[ModelStatus] = []
        self.cancelled = threading.Event()
        self.on_report: Callable[[ModelStatus], None] = lambda status: None

    def progress(self, status: ModelStatus) -> None:
        self.reports.append(status)
        self.on_report(status)

    def __call__(self, source: str | Path, sources: Sources | None = None) -> PreparedModel:
        return prepare(
            str(source),
            models_dir=self.models_dir,
            progress=self.progress,
            cancelled=self.cancelled,
            sources=sources,
        )


@pytest.fixture
def preparing(tmp_path: Path) -> Preparing:
    return Preparing(tmp_path / "models")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as server:
        yield server
