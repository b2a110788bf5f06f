"""Choosing the next token from logits, in numpy, so that every backend samples alike. Worker thread.

What a row gives never depends on the rows beside it: only exact (IEEE) operations run over several rows at
once, and rows are summed and exponentiated one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from inference.backends.base import Logits
from inference.penalties import TokenCounts
from inference.sampling_params import SamplingParams
from inference.types import TokenLogprob

Floats: TypeAlias = npt.NDArray[np.float64]
TokenIds: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Draw:
    """What one row of logits is sampled with. `index` counts the reply's tokens from 0; `counts` has to be
    there when the params penalize.
    """

    params: SamplingParams
    index: int
    counts: TokenCounts | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """A chosen token, and its log-probability when the params ask for it."""

    token_id: int
    logprob: TokenLogprob | None = None


def sample(logits: Logits, draws: Sequence[Draw]) -> list[Sampled | None]:
    """One token for every row of `logits`, which has shape [len(draws), vocab] and is left as it is; None for
    a row whose largest logit is not finite, since nothing can be read from it.

    In the order of transformers' generation: penalties, temperature, top_k, top_p, min_p. Temperature 0
    takes the largest logit, of equal ones the lowest id. Otherwise one of the tokens that stay is drawn by
    inverting their cumulative distribution, in the order of their ids, at a uniform number that depends on
    (seed, index) alone.
    """
    penalized = _penalized(logits, draws)
    tokens: list[int] = penalized.argmax(axis=-1).tolist()  # of a NaN if there is one
    finite = np.isfinite(penalized[np.arange(len(tokens)), tokens])
    drawn = [row for row, draw in enumerate(draws) if draw.params.temperature > 0 and finite[row]]
    if drawn:
        temperatures = np.array([draws[row].params.temperature for row in drawn])
        for row, weights in zip(drawn, token_weights(penalized[drawn], temperatures), strict=True):
            tokens[row] = _invert(weights, draws[row])
    return [
        Sampled(token, token_logprob(row, token, draw.params.logprobs) if draw.params.logprobs else None)
        if known
        else None
        for row, token, draw, known in zip(logits, tokens, draws, finite, strict=True)
    ]


def noise(seed: int, index: int) -> float:
    """A uniform number in [0, 1) for one token of one reply: Philox, a counter-based generator keyed by
    both.
    """
    return float(np.random.Generator(np.random.Philox(key=[seed, index])).random())


def token_logprob(logits: Logits, token_id: int, alternatives: int) -> TokenLogprob:
    """Log-softmax of a row of shape [vocab], in float64: of one token, and of the likeliest."""
    row = logits.astype(np.float64)
    row -= row.max()
    row -= np.log(np.exp(row).sum())
    likeliest = _at_least_kth(row, alternatives)
    likeliest = likeliest[np.lexsort((likeliest, -row[likeliest]))][:alternatives]
    top = tuple(zip(likeliest.tolist(), row[likeliest].tolist(), strict=True))
    return TokenLogprob(token_id, float(row[token_id]), top)


def token_weights(logits: Logits | Floats, temperatures: Floats) -> Floats:
    """Probabilities up to a factor: exp((logit - largest) / temperature), so that the likeliest has 1."""
    weights = logits.astype(np.float64)
    weights -= weights.max(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):  # a temperature next to 0 leaves the likeliest alone
        weights /= temperatures[:, None]
    for row in weights:
        np.exp(row, out=row)
    return weights


def kept_tokens(weights: Floats, params: SamplingParams) -> TokenIds:
    """Ids, ascending, of the tokens that top_k, top_p and min_p leave of a row of shape [vocab].

    As TopKLogitsWarper, TopPLogitsWarper and MinPLogitsWarper of transformers: top_k keeps all that are as
    likely as the k-th; top_p takes the likeliest first (of equal ones the lowest id) until their share of
    what top_k left reaches it; min_p removes what is below that part of the likeliest one's probability
    (Nguyen et al., arXiv:2407.01082).
    """
    if params.top_k:
        ids = _at_least_kth(weights, params.top_k)
        ids = ids[_nucleus(weights[ids], params.top_p)]
    else:
        ids = _nucleus(weights, params.top_p)
    return ids[weights[ids] >= params.min_p] if params.min_p else ids


def _penalized(logits: Logits, draws: Sequence[Draw]) -> Logits | Floats:
    if not any(draw.params.penalizes for draw in draws):
        return logits
    penalized = logits.astype(np.float64)
    for row, draw in zip(penalized, draws, strict=True):
        if draw.params.penalizes and draw.counts is not None:
            draw.counts.penalize(row, draw.params)
    return penalized


def _invert(weights: Floats, draw: Draw) -> int:
    ids = kept_tokens(weights, draw.params)
    cumulative = np.cumsum(weights[ids])
    drawn = noise(draw.params.seed or 0, draw.index) * cumulative[-1]
    return int(ids[min(int(np.searchsorted(cumulative, drawn, side="right")), len(ids) - 1)])


def _at_least_kth(values: Floats, k: int) -> TokenIds:
    """Ids, ascending, of the values that are not below the k-th largest."""
    if k >= len(values):
        return np.arange(len(values))
    return np.flatnonzero(values >= np.partition(values, len(values) - k)[-k])


def _nucleus(weights: Floats, top_p: float) -> TokenIds:
    """Places, ascending, of the smallest set of likeliest tokens whose share is at least `top_p`."""
    if top_p == 1:
        return np.arange(len(weights))
    total = weights.sum()
    # Tokens below an even share of the tail cannot reach into the nucleus, all together; half of that leaves
    # room for rounding. Only the others are sorted, by value, since that is quicker than sorting places.
    likely = np.flatnonzero(weights >= 0.5 * (1 - top_p) * total / len(weights))
    values = weights[likely]
    descending = np.sort(values)[::-1]
    before = np.cumsum(descending) - descending
    size = int(np.count_nonzero(before < top_p * total))
    least = descending[size - 1]
    kept = values > least
    kept[np.flatnonzero(values == least)[: size - np.count_nonzero(kept)]] = True
    nucleus: TokenIds = likely[kept]
    return nucleus
