"""How the next token is chosen, with the allowed ranges. Frozen, torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from inference.errors import InvalidParams

MAX_TOKENS_LIMIT = 1_000_000
MAX_TOP_K = 1_000_000
MAX_STOP_STRINGS = 8
MAX_STOP_LENGTH = 200
MAX_SEED = 2**63 - 1
MAX_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class Range:
    """What a value may be: from `lowest` (or above it, where `open`) to `highest`; `whole` numbers only."""

    lowest: float
    highest: float
    whole: bool = False
    open: bool = False

    def __contains__(self, value: float) -> bool:
        whole = isinstance(value, int) or not self.whole
        return whole and self.lowest <= value <= self.highest and not (self.open and value == self.lowest)

    def __str__(self) -> str:
        if self.open:
            return f"above {self.lowest:g} and at most {self.highest:g}"
        if self.whole:
            return f"a whole number from {self.lowest} to {self.highest:,}"
        return f"from {self.lowest:g} to {self.highest:g}"


RANGES: Mapping[str, Range] = MappingProxyType(
    {
        "temperature": Range(0, 5),
        "top_p": Range(0, 1, open=True),
        "top_k": Range(0, MAX_TOP_K, whole=True),
        "min_p": Range(0, 1),
        "repetition_penalty": Range(0.1, 10),
        "presence_penalty": Range(-2, 2),
        "frequency_penalty": Range(-2, 2),
        "seed": Range(0, MAX_SEED, whole=True),
        "max_tokens": Range(1, MAX_TOKENS_LIMIT, whole=True),
        "logprobs": Range(0, MAX_LOGPROBS, whole=True),
    }
)
"""Of every sampling param that is a number."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. Values out of range, NaN among them, raise `InvalidParams`.

    They apply in the order of transformers' generation: first the penalties (repetition, then presence and
    frequency), then temperature, top_k, top_p and min_p. `inference.sampler` has the formulas.

    temperature: 0 is greedy; otherwise logits are divided by it. 0 to 5.
    top_p: the smallest set of tokens whose probabilities sum to it stays. Above 0, up to 1; 1 is off.
    top_k: only the k likeliest stay. 0 to 1,000,000; 0 is off.
    min_p: tokens less likely than this part of the likeliest one's probability go. 0 to 1; 0 is off.
    repetition_penalty: makes tokens of the prompt and the reply less likely above 1. 0.1 to 10; 1 is off.
    presence_penalty: taken once from the logits of tokens in the reply. -2 to 2; 0 is off.
    frequency_penalty: taken from them for every time that they are in the reply. -2 to 2; 0 is off.
    seed: the noise of token i depends on (seed, i) alone. None draws a seed, which the reply records.
    max_tokens: the most tokens a reply may have. None leaves the choice to the server's reserve.
    stop: the reply ends before the first of these strings.
    ignore_eos: the model's end-of-sequence token does not end the reply. For benchmarks.
    logprobs: how many alternatives every token's log-probability is reported with. 0 to 20; 0 is off.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    ignore_eos: bool = False
    logprobs: int = 0

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            value = getattr(self, name)
            if value is not None or name not in ("seed", "max_tokens"):
                _require(value in allowed, name, value, f"{allowed}")
        count = len(self.stop)
        _require(count <= MAX_STOP_STRINGS, "stop", count, f"at most {MAX_STOP_STRINGS} strings")
        for text in self.stop:
            length = f"1 to {MAX_STOP_LENGTH} characters long"
            _require(0 < len(text) <= MAX_STOP_LENGTH, "stop", text[:20], length)

    @property
    def penalizes(self) -> bool:
        """Whether any penalty is on, so that the sequence's tokens have to be counted."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1, 0, 0)


def _require(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise InvalidParams(name, value, allowed)
