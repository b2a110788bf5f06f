"""What the owner reads in the terminal: addresses and the model's progress, on standard error."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from inference.types import ModelPhase, ModelStatus


class StatusPrinter:
    """Shows a model's way to being ready: a bar while bytes arrive, a line for every other step."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._last = ""

    def __call__(self, status: ModelStatus) -> None:
        if status.phase is ModelPhase.DOWNLOADING and status.total and self._console.is_terminal:
            self._advance(status)
            return
        self.close()
        if status.message != self._last and status.phase is not ModelPhase.DOWNLOADING:
            style = "red" if status.phase is ModelPhase.FAILED else "none"
            self._console.print(status.message, style=style, markup=False, soft_wrap=True)
        elif status.phase is ModelPhase.DOWNLOADING and not self._last:
            self._console.print(status.message, markup=False, soft_wrap=True)
        self._last = status.message

    def close(self) -> None:
        """Put the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _advance(self, status: ModelStatus) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.add_task(status.message, total=status.total)
            self._bar.start()
        task = self._bar.task_ids[0]
        self._bar.update(task, completed=status.done, total=status.total, description=status.message)
