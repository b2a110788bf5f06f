"""What the bench tells people: progress on standard error, then a table or an object."""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from inference.bench.rounds import Figures, ratios, report
from inference.bench.work import Figure
from inference.memory import MemoryPlan
from inference.types import ModelDescription

OURS = "ondol"
RATIO_NOTE = "Ondol / peer: above 1 is better for *_tok_s, below 1 for *_ms and *_mb"
LABELS = {
    "decode_tok_s": "decode after {:,} (tok/s)",
    "prefill_tok_s": "prefill of {:,} (tok/s)",
    "cached_ttft_ms": "TTFT, cached (ms)",
    "cold_ttft_ms": "TTFT, cold (ms)",
    "batch4_tok_s": "decode, 4 chats (tok/s)",
    "gap_ratio": "gap beside a prompt (p95 / usual)",
    "undrafted_tok_s": "copying a text (tok/s)",
    "drafted_tok_s": "  with drafts (tok/s)",
    "rss_mb": "peak memory, 1 chat (MiB)",
    "rss4_mb": "peak memory, 4 chats (MiB)",
    "warm_up": "warm-up",
}


OWN = ("gap_ratio", "undrafted_tok_s", "drafted_tok_s")
"""Figures that no peer is asked for."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured. `peer_engine` and `peers` are None without a peer."""

    description: ModelDescription
    memory_plan: MemoryPlan
    rounds: int
    ours: Figures
    peer_engine: str | None = None
    peers: Figures | None = None


class BenchProgress:
    """A bar while the bench runs; a line for every stage where standard error is no terminal."""

    def __init__(self, rounds: int, steps: int, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._rounds = rounds
        self._stage = ""
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=steps)
        self._done = -1

    def step(self, number: int, figure: Figure, engine: str) -> None:
        """A measurement is about to begin; the first one ends the model's own way of showing progress."""
        self._done += 1
        stage = self._stage_of(number, figure)
        if not self._console.is_terminal:
            if stage != self._stage:
                self._console.print(stage, markup=False, soft_wrap=True)
            self._stage = stage
            return
        if not self._done:
            self._bar.start()
        text = f"{stage} · {label(figure)} · {engine}"
        self._bar.update(self._task, completed=self._done, description=text)

    def __enter__(self) -> BenchProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:  # elsewhere it would leave an empty line
            self._bar.stop()

    def _stage_of(self, number: int, figure: Figure) -> str:
        if figure.key == "warm_up":
            return "Warm-up"
        if figure.key in OWN:
            return f"Sharing, round {number} of {self._rounds}"
        return "Memory" if figure.key.startswith("rss") else f"Round {number} of {self._rounds}"


def label(figure: Figure) -> str:
    """The figure in words, with its unit."""
    return LABELS[figure.key].format(figure.tokens)


def as_object(result: Result) -> dict[str, Any]:
    """What `--json` prints: what ran, our figures, and the peer's with their ratios."""
    description = result.description
    found: dict[str, Any] = {
        "engine": f"Ondol {importlib.metadata.version('ondol')}",
        "model": description.name,
        "quantization": description.quantization,
        "backend": description.backend,
        "kernels": description.kernels or None,
        "device": description.device,
        "compute_dtype": description.compute_dtype,
        "threads": description.threads,
        "memory_plan": asdict(result.memory_plan),
        "rounds": result.rounds,
        **report(result.ours),
    }
    if result.peers is not None:
        found["peer"] = {
            "engine": result.peer_engine,
            "threads": description.threads,
            **report(result.peers),
        }
        found["ratio"] = {"note": RATIO_NOTE, **report(ratios(result.ours, result.peers))}
    return found


def heading(result: Result) -> str:
    """What ran, in one line."""
    what = result.description
    backend = " ".join(filter(None, (what.backend, what.kernels)))
    return (
        f"{what.name} · {what.quantization} · {backend} · {what.compute_dtype} · {what.threads} threads "
        f"· median of {result.rounds}"
    )


def as_table(result: Result) -> Table:
    """Our figures, one a row, and beside them the peer's."""
    peers = result.peers
    table = Table()
    table.add_column("", no_wrap=True)
    table.add_column("Ondol", justify="right")
    if peers is not None:
        table.add_column(result.peer_engine or "peer", justify="right")
        table.add_column("ratio", justify="right")
        table.add_column("better")
    ratio = ratios(result.ours, peers or {})
    for figure, own in result.ours.items():
        row = [label(figure), f"{own:,.1f}"]
        if peers is not None:
            row += [f"{peers[figure]:,.1f}" if figure in peers else "-"]
            row += [f"{ratio[figure]:.3f}" if figure in ratio else "-"]
            row += ["high" if figure.higher_is_better else "low"]
        table.add_row(*row)
    return table
