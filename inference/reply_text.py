"""From one reply's token ids to what people read: its reasoning and its answer. Worker thread."""

from __future__ import annotations

from collections.abc import Sequence

from inference.detokenizer import Decode, StopStrings, StreamingDetokenizer
from inference.reasoning import ReasoningFormat, ReasoningSplitter


class ReplyText:
    """Detokenizes, splits reasoning from answer, and ends the answer before a stop string.

    Stop strings do not end the reasoning. `reasoning_tokens` counts the tokens of the reasoning and of its
    marks; `reasoning_s` is the time from the reply's first token to the end of the reasoning, None while it
    has none.
    """

    def __init__(self, decode: Decode, stops: Sequence[str], reasoning: ReasoningFormat | None) -> None:
        self.reasoning_tokens = 0
        self.reasoning_s: float | None = None
        self._detokenizer = StreamingDetokenizer(decode)
        self._splitter = ReasoningSplitter(reasoning)
        self._stops = StopStrings(stops)
        self._began_at: float | None = None
        self._undecided_tokens = 0

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stops.found

    def add(self, token_id: int, now: float) -> tuple[str, str]:
        """The reasoning and the text that became certain with this token."""
        if self._began_at is None:
            self._began_at = now
        before_answer = not self._splitter.in_answer
        reasoning, text = self._splitter.add(self._detokenizer.add(token_id))
        if before_answer:
            self._undecided_tokens += 1
            if self._splitter.has_reasoning:
                self.reasoning_tokens += self._undecided_tokens
                self._undecided_tokens = 0
                self.reasoning_s = now - self._began_at
        return reasoning, self._stops.add(text)

    def flush(self) -> tuple[str, str]:
        """What was held back, once no more tokens come."""
        reasoning, text = self._splitter.flush()
        return reasoning, self._stops.add(text) + self._stops.flush()
