"""Small plots as SVG path data: a box of 300 by 60, time from left to right, newest last. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 300, 60
TOP = 4
"""Kept free over the highest value, so that its line is whole."""


@dataclass(frozen=True, slots=True)
class Plot:
    """An area under a line, and a second one on top of it where there is one; path data, maybe empty.

    highest: the value at the top of the box.
    """

    line: str
    area: str
    above: str
    highest: float


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a bar: where it begins and how wide it is, in percent of the bar."""

    name: str
    value: float
    start: float
    width: float


def plot(values: Sequence[float | None], places: int, above: Sequence[float | None] = ()) -> Plot:
    """Values over `places` places, the last one at the right edge; None leaves a gap.

    `above` is stacked on `values`.
    """
    stacked = [(low or 0.0) + (high or 0.0) for low, high in zip(values, above, strict=False)]
    shown = [value for value in (*values, *stacked) if value is not None]
    highest = max(shown, default=0.0)
    top = max(highest, 1e-9)
    points = _points(values, places, top)
    runs = list(_runs(points))
    upper = [point for point in _points(stacked, places, top) if point is not None] if above else []
    lower = [point for point in _points([v or 0.0 for v in values], places, top) if point is not None]
    return Plot(
        line=" ".join(_line(run) for run in runs),
        area=" ".join(f"{_line(run)} V{HEIGHT} H{_n(run[0][0])} Z" for run in runs),
        above=f"{_line(upper)} L{_pairs(lower[::-1])} Z" if upper else "",
        highest=highest,
    )


def shares(parts: Sequence[tuple[str, float]]) -> list[Share]:
    """Parts of a whole, side by side."""
    whole = sum(value for _, value in parts) or 1.0
    found, start = [], 0.0
    for name, value in parts:
        width = 100 * value / whole
        found.append(Share(name, value, round(start, 3), round(width, 3)))
        start += width
    return found


def _points(values: Sequence[float | None], places: int, top: float) -> list[tuple[float, float] | None]:
    step, first = WIDTH / max(1, places - 1), places - len(values)
    return [
        None if value is None else (step * (first + i), HEIGHT - (HEIGHT - TOP) * value / top)
        for i, value in enumerate(values)
    ]


def _runs(points: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Neighbouring points; a lonely one gets a little width, to be seen."""
    runs: list[list[tuple[float, float]]] = []
    for before, point in pairwise([None, *points]):
        if point is None:
            continue
        if before is None:
            runs.append([])
        runs[-1].append(point)
    return [run if len(run) > 1 else [(run[0][0] - 1, run[0][1]), (run[0][0] + 1, run[0][1])] for run in runs]


def _line(points: Sequence[tuple[float, float]]) -> str:
    return f"M{_pairs(points)}" if points else ""


def _pairs(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
