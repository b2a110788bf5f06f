"""Choosing the next token from logits, in numpy, so that every backend samples alike. Worker thread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference.backends.base import Logits
from inference.types import SamplingParams


def sample(logits: Logits, params: SamplingParams, index: int) -> int:
    """The next token id. `logits` has shape [vocab]; `index` counts the reply's tokens from 0.

    Temperature 0 takes the largest logit. Otherwise top_k and then top_p keep the likeliest tokens, as the
    processors of transformers do (temperature first), and one of them is drawn by inverting the cumulative
    distribution at a uniform number that depends on (seed, index) alone.
    """
    if params.temperature == 0:
        return int(np.argmax(logits))
    candidates, probabilities = candidate_distribution(logits, params)
    cumulative = np.cumsum(probabilities)
    drawn = noise(params.seed or 0, index) * cumulative[-1]
    return int(candidates[min(int(np.searchsorted(cumulative, drawn, side="right")), len(candidates) - 1)])


def candidate_distribution(
    logits: Logits, params: SamplingParams
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """The tokens that may be drawn, likeliest first, and their probabilities (which sum to 1)."""
    scaled = logits.astype(np.float64) / params.temperature
    order = _likeliest_first(scaled, params.top_k)
    weights = np.exp(scaled[order] - scaled[order[0]])
    probabilities = weights / weights.sum()
    if params.top_p < 1:
        before = np.cumsum(probabilities) - probabilities
        kept = int(np.count_nonzero(before < params.top_p))
        order, probabilities = order[:kept], probabilities[:kept] / probabilities[:kept].sum()
    return order, probabilities


def noise(seed: int, index: int) -> float:
    """A uniform number in [0, 1) for one token of one reply: Philox, a counter-based generator keyed by
    both.
    """
    return float(np.random.Generator(np.random.Philox(key=[seed, index])).random())


def _likeliest_first(scaled: npt.NDArray[np.float64], top_k: int) -> npt.NDArray[np.intp]:
    if 0 < top_k < len(scaled):
        chosen = np.argpartition(-scaled, top_k - 1)[:top_k]
        return chosen[np.lexsort((chosen, -scaled[chosen]))]
    return np.argsort(-scaled, kind="stable")
