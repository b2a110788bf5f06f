"""Scripted models that go as far as a test lets them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from inference.config import EngineConfig
from inference.errors import ModelUnavailable
from inference.models.prepared import PreparedModel, Progress
from inference.types import ModelPhase, ModelStatus

LET_ALL = 100_000
GATE_S = 60


class Pace(threading.Semaphore):
    """Permits for the double's steps: a byte each, and one for each chunk of the prompt."""

    def let(self, steps: int = 1) -> None:
        """So many steps more."""
        self.release(steps)

    def let_all(self) -> None:
        """As many as it wants."""
        self.release(LET_ALL)


class Loading:
    """Prepares a model in stages that the test decides."""

    def __init__(self, prepare: Callable[[], PreparedModel]) -> None:
        self.fetched = threading.Event()
        self.failures: list[str] = []
        self.message = "Fetching the double"
        self._prepare = prepare

    def __call__(self, config: EngineConfig, progress: Progress, cancelled: threading.Event) -> PreparedModel:
        if self.failures:
            raise ModelUnavailable(self.failures.pop())
        progress(ModelStatus(ModelPhase.DOWNLOADING, self.message, 31_000_000, 93_000_000))
        self.fetched.wait(GATE_S)
        return self._prepare()
