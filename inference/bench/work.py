"""What is measured, and how a figure comes out of it: the same prompts and arithmetic for every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, pairwise
from random import Random
from statistics import median, quantiles
from typing import Literal, NamedTuple, TypeAlias

from inference.errors import BenchFailed

Kind: TypeAlias = Literal["decode", "prefill", "ttft", "memory", "gap"]

SEED = 20261129
LEAST_REUSE = 0.9
"""The share of a history that has to come from the prefix cache for a turn to count as cached."""


class Figure(NamedTuple):
    """The name of one figure: its key in the report, and the tokens it belongs to where there are several."""

    key: str
    tokens: int | None = None

    @property
    def higher_is_better(self) -> bool:
        """True for rates; times and memory should be low."""
        return self.key.endswith("tok_s")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is likely after every first part of `token_ids`, to be written to `file`: the logarithms of
    probabilities, float32 of the machine's byte order, [tokens, vocab].
    """

    token_ids: tuple[int, ...]
    vocab: int
    file: str


@dataclass(frozen=True, slots=True)
class Work:
    """One measurement: all `prompts` at once, `new_tokens` generated for each, greedy, EOS ignored.

    window: tokens of context that each prompt may take. history: computed before the clock starts, left in
    the prefix cache for the prompt that begins with it; every other prompt shares nothing with earlier ones.
    drafts: whether tokens may be guessed ahead. In a `gap` the last prompt comes when the others are being
    written.
    """

    kind: Kind
    prompts: tuple[tuple[int, ...], ...]
    new_tokens: int
    window: int
    history: tuple[int, ...] = ()
    drafts: bool = False


class Point(NamedTuple):
    """At `at_s`, `tokens` tokens of a reply had been generated."""

    at_s: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Run:
    """What happened to one prompt, in seconds on a clock that all runs of one work share.

    prefill_tok_s: tokens computed per second of prefill. cached_tokens: None where an engine does not tell.
    """

    submitted_s: float
    points: tuple[Point, ...]
    prefill_tok_s: float | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run a prompt, and the peak resident memory of the process (MiB) so far."""

    runs: tuple[Run, ...]
    peak_mb: int


Measure: TypeAlias = Callable[[Work], Outcome]
"""An engine under test."""


class Prompts:
    """Pseudo-random token ids. No two begin with the same token, so that no prefix cache can help.

    Ids are drawn from 100 to `vocab_size` - 1,000, where special tokens seldom are.
    """

    def __init__(self, vocab_size: int, seed: int = SEED) -> None:
        self._random = Random(seed)
        self._low, self._high = min(100, vocab_size // 4), max(vocab_size - 1000, vocab_size * 3 // 4)
        firsts = list(range(self._low, self._high))
        self._random.shuffle(firsts)
        self._firsts = cycle(firsts)

    def fresh(self, length: int) -> tuple[int, ...]:
        """`length` ids that share no beginning with any given out before."""
        rest = (self._random.randrange(self._low, self._high) for _ in range(length - 1))
        return (next(self._firsts), *rest)


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes, in tokens. `settle_s`: a pause before each turn of an engine, until the other's threads
    have stopped waiting actively.
    """

    contexts: tuple[int, ...] = (128, 512, 2048)
    prefills: tuple[int, ...] = (512, 2048)
    new_tokens: int = 48
    history: int = 1500
    turn: int = 20
    batch_prompt: int = 128
    window: int = 4096
    batch_window: int = 2048
    newcomer: int = 2000
    gap_tokens: int = 96
    copy_tokens: int = 64
    settle_s: float = 0.25

    def warm_up(self, prompts: Prompts) -> list[tuple[Figure, Work]]:
        """One short reply and four together; their figures mean nothing."""
        return [(Figure("warm_up", count), self._decode(prompts, 64, count)) for count in (1, 4)]

    def speed(self, prompts: Prompts) -> list[tuple[Figure, Work]]:
        """One round, of fresh prompts."""
        history = prompts.fresh(self.history)
        works = [(Figure("decode_tok_s", n), self._decode(prompts, n, 1)) for n in self.contexts]
        works += [
            (Figure("prefill_tok_s", n), Work("prefill", (prompts.fresh(n),), 1, self.window))
            for n in self.prefills
        ]
        turn, cold = history + prompts.fresh(self.turn), prompts.fresh(self.history + self.turn)
        return [
            *works,
            (Figure("cached_ttft_ms"), Work("ttft", (turn,), 1, self.window, history)),
            (Figure("cold_ttft_ms"), Work("ttft", (cold,), 1, self.window)),
            (Figure("batch4_tok_s"), self._decode(prompts, self.batch_prompt, 4)),
        ]

    def own(self, prompts: Prompts, passage: tuple[int, ...]) -> list[tuple[Figure, Work]]:
        """What no peer is asked for. passage: a prompt whose reply repeats much of it."""
        copying = Work("decode", (passage,), self.copy_tokens, self.window, passage)
        chats = (*(prompts.fresh(self.batch_prompt) for _ in range(3)), prompts.fresh(self.newcomer))
        return [
            (Figure("gap_ratio"), Work("gap", chats, self.gap_tokens, self.window)),
            (Figure("undrafted_tok_s"), copying),
            (Figure("drafted_tok_s"), replace(copying, drafts=True)),
        ]

    def memory(self, prompts: Prompts) -> list[tuple[Figure, Work]]:
        """Chats that fill their windows to the last token; each work needs a fresh process."""
        return [
            (Figure("rss_mb"), self._fill(prompts, self.window, 1)),
            (Figure("rss4_mb"), self._fill(prompts, self.batch_window, 4)),
        ]

    def steps(self, rounds: int) -> int:
        """How many measurements one engine has."""
        speeds = len(self.contexts) + len(self.prefills) + 3
        return 2 + rounds * speeds + 2

    def own_steps(self, rounds: int) -> int:
        """How many measurements there are that no peer takes part in."""
        return 3 * rounds

    def _decode(self, prompts: Prompts, length: int, count: int) -> Work:
        return Work(
            "decode", tuple(prompts.fresh(length) for _ in range(count)), self.new_tokens, self.window
        )

    def _fill(self, prompts: Prompts, window: int, count: int) -> Work:
        length = window - self.new_tokens
        return Work("memory", tuple(prompts.fresh(length) for _ in range(count)), self.new_tokens, window)


def value(work: Work, outcome: Outcome) -> float:
    """The figure: tokens/s, milliseconds or MiB. Raises `BenchFailed` when something else was measured."""
    for run in outcome.runs:
        _check(work, run)
    if len(outcome.runs) != len(work.prompts):
        raise BenchFailed(f"{len(outcome.runs)} of {len(work.prompts)} prompts were answered.")
    first = outcome.runs[0]
    match work.kind:
        case "decode":
            return decode_rate(outcome.runs)
        case "prefill":
            if first.prefill_tok_s is None:
                raise BenchFailed("The engine did not tell how long its prefill took.")
            return first.prefill_tok_s
        case "ttft":
            return (first.points[0].at_s - first.submitted_s) * 1e3
        case "memory":
            return outcome.peak_mb
        case "gap":
            return gap_ratio(outcome.runs)


def decode_rate(runs: Sequence[Run]) -> float:
    """Tokens per second, summed over the runs while all of them decode: from the last one's first token to
    the first one's last, so that nobody's prefill is in it.
    """
    begin = max(run.points[0].at_s for run in runs)
    end = min(run.points[-1].at_s for run in runs)
    return sum(_rate([point for point in run.points if begin <= point.at_s <= end]) for run in runs)


def gap_ratio(runs: Sequence[Run]) -> float:
    """How much longer the others wait between two tokens while the last one's prompt is read: the 95th
    percentile of their gaps meanwhile, as a multiple of the median gap before.
    """
    *others, newcomer = runs
    begin, end = newcomer.submitted_s, newcomer.points[0].at_s
    gaps = [(a.at_s, b.at_s) for run in others for a, b in pairwise(run.points)]
    before = [b - a for a, b in gaps if b <= begin]
    meanwhile = [b - a for a, b in gaps if begin <= a and b <= end]
    if not before or len(meanwhile) < 2:
        raise BenchFailed("The others' replies were not being written while the prompt was read.")
    return quantiles(meanwhile, n=20)[-1] / median(before)


def _rate(points: Sequence[Point]) -> float:
    if len(points) < 2:
        raise BenchFailed("The replies did not decode side by side, so their summed speed means nothing.")
    return (points[-1].tokens - points[0].tokens) / (points[-1].at_s - points[0].at_s)


def _check(work: Work, run: Run) -> None:
    generated = run.points[-1].tokens if run.points else 0
    if generated != work.new_tokens:
        raise BenchFailed(f"A reply ended after {generated} of {work.new_tokens} tokens.")
    if run.cached_tokens is None:
        return
    if not work.history and run.cached_tokens:
        raise BenchFailed(f"{run.cached_tokens:,} tokens of a prompt that should be new were cached.")
    if run.cached_tokens < LEAST_REUSE * len(work.history):
        raise BenchFailed(
            f"Only {run.cached_tokens:,} of {len(work.history):,} tokens were still in the prefix cache."
        )
