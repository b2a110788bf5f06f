"""Making tokens less likely that were already said. Numpy; one instance a sequence, worker thread."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from inference.sampling_params import SamplingParams


class TokenCounts:
    """Which tokens are in a sequence's prompt and completion, and how often in its completion.

    Adding a token costs the same however long the sequence is; applying costs one pass over the distinct
    ones.
    """

    def __init__(self, prompt_ids: Iterable[int]) -> None:
        self._slots = {token: slot for slot, token in enumerate(dict.fromkeys(prompt_ids))}
        self._ids = np.fromiter(self._slots, np.intp)
        self._counts = np.zeros(len(self._ids))

    def add(self, token_id: int) -> None:
        """Count one more token of the completion."""
        slot = self._slots.setdefault(token_id, len(self._slots))
        if slot == len(self._ids):
            grown = max(64, 2 * slot)
            self._ids.resize(grown, refcheck=False)
            self._counts.resize(grown, refcheck=False)
        self._ids[slot] = token_id
        self._counts[slot] += 1

    def penalize(self, logits: npt.NDArray[np.float64], params: SamplingParams) -> None:
        """Change `logits`, of shape [vocab], in place.

        Repetition penalty over prompt and completion, as RepetitionPenaltyLogitsProcessor of transformers
        (after Keskar et al., arXiv:1909.05858): a positive logit is divided by it, a negative one multiplied.
        Then, as the OpenAI API documents its presence and frequency penalties, over the completion alone:
        logit - presence * (count > 0) - frequency * count.
        """
        size = len(self._slots)
        ids, counts = self._ids[:size], self._counts[:size]
        values = logits[ids]
        if params.repetition_penalty != 1:
            penalty = params.repetition_penalty
            values = np.where(values < 0, values * penalty, values / penalty)
        values -= params.presence_penalty * (counts > 0) + params.frequency_penalty * counts
        logits[ids] = values
