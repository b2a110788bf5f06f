"""Rounds in which engines take turns, and what is left of them: medians and ratios."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeAlias

from inference.bench.work import Figure, Measure, Work, value

Figures: TypeAlias = dict[Figure, float]
Report: TypeAlias = dict[str, float | dict[int, float]]
OnStep: TypeAlias = Callable[[int, Figure, str], None]
"""Called before each measurement with the round (from 1), the figure and the engine's name."""


def measure(
    works: Callable[[], Sequence[tuple[Figure, Work]]],
    engines: Mapping[str, Measure],
    *,
    rounds: int,
    on_step: OnStep,
    settle_s: float = 0.0,
    digits: int = 1,
) -> dict[str, Figures]:
    """Each engine's median of every figure; all get the same prompts. Raises `BenchFailed`.

    works: called once a round, for fresh prompts. Engines take turns at every figure, and who begins changes
    with the round, so that neither is favoured by a machine that grows warm or busy. settle_s: a pause
    before each turn while there are several. digits: decimals that are kept.
    """
    samples: dict[str, dict[Figure, list[float]]] = {name: defaultdict(list) for name in engines}
    for number in range(1, rounds + 1):
        names = list(engines) if number % 2 else list(engines)[::-1]
        for figure, work in works():
            for name in names:
                on_step(number, figure, name)
                if len(names) > 1:
                    time.sleep(settle_s)
                samples[name][figure].append(value(work, engines[name](work)))
    return {
        name: {figure: round(median(found), digits) for figure, found in figures.items()}
        for name, figures in samples.items()
    }


def ratios(ours: Figures, peers: Figures) -> Figures:
    """Ours divided by the peer's, where it has a figure other than zero."""
    return {figure: round(own / peers[figure], 3) for figure, own in ours.items() if peers.get(figure)}


def report(figures: Figures) -> Report:
    """Figures by key, and by key and tokens where they belong to a number of tokens."""
    nested: Report = {}
    for (key, tokens), found in figures.items():
        if tokens is None:
            nested[key] = found
            continue
        by_tokens = nested.setdefault(key, {})
        assert isinstance(by_tokens, dict)
        by_tokens[tokens] = found
    return nested
