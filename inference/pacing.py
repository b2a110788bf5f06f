"""How much of a prompt to read at a time, from measured speed. Worker thread only.

Small chunks cost speed, large ones keep others waiting: while somebody reads a long prompt, the chats that
are being written may pause for three of their usual gaps between tokens at most, and a stop must take effect
soon.
"""

from __future__ import annotations

SMALLEST_CHUNK = 8
STEPS_PER_CHUNK = 1.7
"""A chunk beside decoding sequences takes as long as so many steps: with the step itself nearly three gaps,
and some room for chunks that take longer than the last ones.
"""

STOP_WITHIN_S = 0.5
"""A chunk without company ends within this time."""

_MEMORY = 0.7


class Pace:
    """Exponential means of what a prompt token and a decode step took."""

    def __init__(self, largest_chunk: int) -> None:
        self._largest_chunk = largest_chunk
        self._token_s: float | None = None
        self._step_s: float | None = None

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """A chunk of so many tokens took so long."""
        self._token_s = _mean(self._token_s, seconds / tokens)

    def observe_step(self, seconds: float) -> None:
        """A decode step took so long."""
        self._step_s = _mean(self._step_s, seconds)

    def chunk(self, *, beside_decoding: bool) -> int:
        """Tokens to read next. Before anything was measured: few, so that the first chunk is no surprise."""
        if self._token_s is None:
            return min(self._largest_chunk, 8 * SMALLEST_CHUNK)
        allowed_s = STOP_WITHIN_S
        if beside_decoding and self._step_s is not None:
            allowed_s = min(allowed_s, STEPS_PER_CHUNK * self._step_s)
        tokens = int(allowed_s / self._token_s) if self._token_s > 0 else self._largest_chunk
        return max(min(SMALLEST_CHUNK, self._largest_chunk), min(tokens, self._largest_chunk))


def _mean(old: float | None, new: float) -> float:
    return new if old is None else _MEMORY * old + (1 - _MEMORY) * new
