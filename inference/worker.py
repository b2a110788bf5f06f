"""The running sequences of one loaded model: admitted, read, written, finished. Worker thread only."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import accumulate
from typing import Protocol

from inference.backends.base import Backend, Logits
from inference.config import EngineConfig
from inference.errors import InferenceError, NotANumber, OutOfMemory
from inference.memory import MemoryPlan
from inference.pacing import Pace
from inference.pinning import Pinning
from inference.prefix_cache import PrefixCache
from inference.prefix_keeper import PrefixKeeper
from inference.sampler import Sampled, sample
from inference.scheduler import WaitingRoom
from inference.scoring import Scoring, ScoringRoom
from inference.sequence import Sequence
from inference.shared_prefixes import SharedPrefixes
from inference.speculation import Payoff
from inference.tally import Tally
from inference.types import FinishReason
from inference.watchdog import Pulse

logger = logging.getLogger(__name__)

MEMORY_ERRORS = (OutOfMemory, MemoryError)


class Close(Protocol):
    """Ends a sequence for good: its last event goes out and its memory is released."""

    def __call__(self, sequence: Sequence, reason: FinishReason, error: str | None = None) -> None: ...


class Worker:
    """Makes steps as long as anything runs, and admits from the waiting room what fits into memory."""

    def __init__(
        self,
        backend: Backend,
        plan: MemoryPlan,
        config: EngineConfig,
        waiting: WaitingRoom,
        cache: PrefixCache,
        keeper: PrefixKeeper,
        close: Close,
        tally: Tally,
        shared: SharedPrefixes | None = None,
        scoring: ScoringRoom | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.backend = backend
        self._plan = plan
        self._waiting = waiting
        self._cache = cache
        self._keeper = keeper
        self._close_sequence = close
        self._tally = tally
        self._shared = shared
        self._clock = clock
        self._pace = Pace(config.prefill_chunk)
        self._pinning = Pinning(backend, cache, self._pace, clock)
        self._scoring = Scoring(backend, cache, self._pace, scoring or ScoringRoom(), plan.window)
        self._payoff = Payoff(config.speculation)
        self._running: dict[str, Sequence] = {}
        self.pulse = Pulse()

    def pin(self, prefix: tuple[int, ...]) -> None:
        """Compute the KV of what every conversation begins with, once, and keep it."""
        self._pinning.pin(prefix)

    def _prefill_ahead(self) -> bool:
        """One chunk of what new chats will begin with. False when nothing is left to do."""
        prefix = self._shared.due() if self._shared is not None else None
        if self._shared is None or prefix is None:
            return False
        try:
            if self._pinning.pin_more(prefix):
                return True
        except Exception as error:  # new chats will read it themselves
            logger.warning("a shared system prompt could not be computed ahead", exc_info=error)
            if isinstance(error, MEMORY_ERRORS):
                self._cache.release()
        self._shared.give_up(prefix)
        return True

    def serve(self, stopping: threading.Event) -> None:
        """Work until asked to stop and nothing runs any more."""
        while not stopping.is_set() or self._running:
            self.pulse.beat()
            self._admit()
            self._tally.publish(self._running.values(), self._plan.window)
            if self._running:
                self._step()
                continue
            if self._scoring.step() or self._prefill_ahead():
                continue
            self.pulse.rest()
            if not self._keeper.save_next() and not self._waiting.wait():
                break
        self._tally.publish(self._running.values(), self._plan.window)

    def _admit(self) -> None:
        while len(self._running) < self._plan.max_sequences:
            sequence = self._waiting.take(self._fits)
            if sequence is None:
                return
            if len(sequence.prompt_ids) >= self._plan.window:
                self._close(sequence, FinishReason.ERROR, self._too_long(sequence))
                continue
            try:
                self._begin(sequence)
            except Exception as error:
                self._break_off([sequence], error)

    def _begin(self, sequence: Sequence) -> None:
        if (
            self._taken + sequence.longest(self._plan.window) + self._scoring.held_tokens
            > self._plan.kv_tokens
        ):
            self._scoring.let_go()
        kv = self.backend.create_kv(len(sequence.prompt_ids))
        # All but the last token: its logits are needed, so it is always computed.
        reusable = sequence.prompt_ids[:-1][: sequence.request.reuse_at_most]
        self.backend.append_blocks(kv, self._cache.match(reusable, sequence.request.reader))
        self._running[sequence.request.id] = sequence
        sequence.reuse_lost = self._keeper.why_lost(sequence.request, kv.length)
        self._tally.began(len(sequence.prompt_ids), kv.length)
        sequence.start(kv, drafts=self._payoff.drafts and sequence.request.drafts)

    @property
    def _taken(self) -> int:
        """Tokens of KV that the running sequences can come to hold."""
        return sum(running.longest(self._plan.window) for running in self._running.values())

    def _fits(self, sequence: Sequence) -> bool:
        """Whether there is KV memory for a sequence even if it becomes as long as it may. Alone, it always
        is.
        """
        taken = self._taken
        return not taken or taken + sequence.longest(self._plan.window) <= self._plan.kv_tokens

    def _too_long(self, sequence: Sequence) -> str:
        return (
            f"The prompt has {len(sequence.prompt_ids):,} tokens, but the free memory holds a window of "
            f"{self._plan.window:,}."
        )

    def _step(self) -> None:
        """One decode step for all that are being written, and one prefill chunk for whoever came first."""
        for sequence in [s for s in self._running.values() if s.stop_asked]:
            self._finish(sequence, FinishReason.ABORT)
        decoding = [s for s in self._running.values() if not s.in_prefill]
        reading = next((s for s in self._running.values() if s.in_prefill), None)
        started = self._clock()
        if decoding:
            self._decode(decoding)
        if reading is not None:
            self._read(reading, beside_decoding=bool(decoding))
        self._tally.stepped(self._clock() - started, len(decoding))

    def _read(self, sequence: Sequence, *, beside_decoding: bool) -> None:
        chunk = sequence.next_chunk(self._pace.chunk(beside_decoding=beside_decoding))
        last = sequence.kv.length + len(chunk) == len(sequence.prompt_ids)
        started = self._clock()
        try:
            logits = self.backend.prefill(sequence.kv, chunk, logits=last)
            seconds = self._clock() - started
            self._pace.observe_prefill(len(chunk), seconds)
            self._tally.read(len(chunk), seconds)
            sequence.report_prefill()
            if logits is not None:
                self._verify([sequence], [()], logits[None])
        except Exception as error:
            self._break_off([sequence], error)

    def _decode(self, sequences: list[Sequence]) -> None:
        try:
            drafts = self._drafts(sequences)
            runs = [[*s.completion_ids[-1:], *draft] for s, draft in zip(sequences, drafts, strict=True)]
            started = self._clock()
            rows = self.backend.decode([s.kv for s in sequences], runs)
            seconds = self._clock() - started
            self._pace.observe_step(seconds)
            self._payoff.observe(len(rows), seconds)
            self._verify(sequences, drafts, rows)
        except Exception as error:
            self._break_off([s for s in sequences if s.request.id in self._running], error)

    def _drafts(self, sequences: list[Sequence]) -> list[tuple[int, ...]]:
        """Guesses at the tokens after those that are due, one tuple a sequence; empty where none is worth
        it.
        """
        drafts = [sequence.draft(self._plan.window) for sequence in sequences]
        chances = [
            (len(draft), sequence.acceptance.expected)
            for sequence, draft in zip(sequences, drafts, strict=True)
            if draft
        ]
        if chances and self._payoff.is_worth_it(len(sequences), chances):
            return drafts
        return [() for _ in sequences]

    def _verify(self, sequences: list[Sequence], drafts: list[tuple[int, ...]], rows: Logits) -> None:
        """Sample after each token of a step, for every sequence until one is not as drafted.

        The n-th row of a sequence counts only if all drafted tokens before it were right; so the batch goes
        through its sequences position by position, and those that are settled drop out.
        """
        starts = [0, *accumulate(1 + len(draft) for draft in drafts)]
        open_places = list(range(len(sequences)))
        position = 0
        while open_places:
            draws = [sequences[place].draw for place in open_places]
            tokens = sample(rows[[starts[place] + position for place in open_places]], draws)
            open_places = [
                place
                for place, token in zip(open_places, tokens, strict=True)
                if self._accept(sequences[place], drafts[place], position, token)
            ]
            position += 1

    def _accept(
        self, sequence: Sequence, draft: tuple[int, ...], position: int, token: Sampled | None
    ) -> bool:
        """Take a token; whether it is as drafted, and the row after it counts too."""
        try:
            if token is None:
                raise NotANumber
            reason = self._take(sequence, token)
            right = draft[position : position + 1] == (token.token_id,)
            if right and reason is None:
                return True
            self._settle(sequence, draft, position + right, reason)
        except Exception as error:
            self._break_off([sequence], error)
        return False

    def _take(self, sequence: Sequence, token: Sampled) -> FinishReason | None:
        first, written = sequence.ttft_s is None, len(sequence.completion_ids)
        reason = sequence.accept(token, self.backend.description.eos_token_ids, self._plan.window)
        if len(sequence.completion_ids) > written:
            self._tally.wrote(first=first)
        if first and sequence.ttft_s is not None:
            self._tally.answered(sequence.ttft_s)
        return reason

    def _settle(
        self, sequence: Sequence, draft: tuple[int, ...], accepted: int, reason: FinishReason | None
    ) -> None:
        if draft:
            sequence.acceptance.observe(len(draft), accepted)
            self.backend.truncate(sequence.kv, sequence.kv.length - len(draft) + accepted)
        if reason is not None:
            self._finish(sequence, reason)

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        kv = sequence.kv
        try:
            self._cache.insert(
                sequence.computed_ids,
                lambda start, stop: self.backend.move_block(kv, start, stop),
                owner=sequence.request.owner,
            )
        except Exception as error:  # the reply is whole; only the next turn has to read it again
            logger.warning("%s is not kept in the prefix cache", sequence.request.id, exc_info=error)
            if isinstance(error, MEMORY_ERRORS):
                self._cache.release()
        self._waiting.observe(sequence.running_s)
        self._close(sequence, reason)

    def _break_off(self, sequences: list[Sequence], error: Exception) -> None:
        """A step failed: these replies end and keep their text; their KV may be wrong and is thrown away."""
        logger.error("a step failed for %s", ", ".join(s.request.id for s in sequences), exc_info=error)
        if isinstance(error, MEMORY_ERRORS):
            self._cache.release()
        for sequence in sequences:
            self._close(sequence, FinishReason.ERROR, _failure(sequence, error))

    def _close(self, sequence: Sequence, reason: FinishReason, error: str | None = None) -> None:
        self._running.pop(sequence.request.id, None)
        self._close_sequence(sequence, reason, error)


def _failure(sequence: Sequence, error: Exception) -> str:
    """What the person is told; the text so far stays."""
    if isinstance(error, MEMORY_ERRORS):
        tokens = len(sequence.prompt_ids) + len(sequence.completion_ids)
        return (
            f"The memory ran out with {tokens:,} tokens of this chat in it. Begin a new chat or close other "
            "programs, then ask again."
        )
    if isinstance(error, InferenceError):
        return str(error)
    return f"The computation failed: {type(error).__name__}: {error}"
