"""Speculative decoding by prompt lookup: guesses at the next tokens, for one step to verify together.

When the last tokens of a text have occurred in it before, what followed them then is a cheap draft of what
follows now (Saxena, "Prompt Lookup Decoding", 2023). The model computes a draft's tokens in one step beside
the token that is due. A drafted token is accepted exactly when it is the one that would have been sampled
there, with that position's noise: the text is the same with and without drafts, and only time differs.

A step with drafts takes longer than one without. Whether it is worth it is measured as replies are written:
how long steps of how many tokens take, and how many of its drafted tokens each reply accepts. Worker thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

Speculation: TypeAlias = Literal["auto", "on", "off"]
"""`auto` drafts where that measures faster, `on` wherever there is a draft."""

NGRAM_TOKENS = 3
"""So many tokens have to recur: of two, most recurrences mean nothing."""

DRAFT_TOKENS = 8
"""The longest draft. A step's time hardly grows up to here; fewer and fewer of more tokens are right."""

RETRY_AFTER = 32
"""After so many unused drafts one is used all the same: times and texts change."""

_MEMORY = 0.8


class PromptLookup:
    """The n-grams of one growing sequence, each with the place where it ended last."""

    def __init__(self, token_ids: Iterable[int]) -> None:
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self._earlier: int | None = None  # where the n-gram that the sequence ends with ended before
        for token in token_ids:
            self.add(token)

    def add(self, token_id: int) -> None:
        """One more token at the end."""
        self._tokens.append(token_id)
        if len(self._tokens) >= NGRAM_TOKENS:
            ngram = tuple(self._tokens[-NGRAM_TOKENS:])
            self._earlier = self._ends.get(ngram)
            self._ends[ngram] = len(self._tokens)

    def draft(self, longest: int) -> tuple[int, ...]:
        """What followed the last occurrence of the tokens at the end: at most `longest` tokens, or none."""
        if self._earlier is None:
            return ()
        return tuple(self._tokens[self._earlier : self._earlier + max(0, min(longest, DRAFT_TOKENS))])


class Acceptance:
    """How many tokens of a draft one sequence was seen to accept: an exponential mean, hopeful at first."""

    def __init__(self) -> None:
        self.expected = float(DRAFT_TOKENS) / 2
        self.drafted = 0
        self.accepted = 0

    def observe(self, drafted: int, accepted: int) -> None:
        """A draft of so many tokens was verified."""
        self.drafted += drafted
        self.accepted += accepted
        self.expected = _MEMORY * self.expected + (1 - _MEMORY) * accepted


class Payoff:
    """Whether a step with drafts gives more tokens a second than one without, from measured steps."""

    def __init__(self, mode: Speculation) -> None:
        self._mode = mode
        self._step_s: dict[int, float] = {}  # by the power of two that the step's tokens reach
        self._unused = 0

    @property
    def drafts(self) -> bool:
        """Whether there is a use for drafts at all."""
        return self._mode != "off"

    def observe(self, tokens: int, seconds: float) -> None:
        """A step of so many tokens, all sequences together, took so long."""
        size = tokens.bit_length()
        known = self._step_s.get(size)
        self._step_s[size] = seconds if known is None else _MEMORY * known + (1 - _MEMORY) * seconds

    def is_worth_it(self, sequences: int, drafts: Sequence[tuple[int, float]]) -> bool:
        """Whether to verify these drafts, of (tokens, expected to be accepted), in a step of so many
        sequences. Before both kinds of step were measured: yes.
        """
        if self._mode == "on":
            return True
        plain = self._step_s.get(sequences.bit_length())
        drafted = self._step_s.get((sequences + sum(tokens for tokens, _ in drafts)).bit_length())
        if plain is None:  # a plain step is measured first: the loop reaches one soon
            return False
        gained = sum(min(tokens, expected) for tokens, expected in drafts)
        if drafted is None or (sequences + gained) / drafted > sequences / plain:
            self._unused = 0
            return True
        self._unused += 1
        if self._unused < RETRY_AFTER:
            return False
        self._unused = 0
        return True
