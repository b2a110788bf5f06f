"""What the engine has done and holds, in numbers, for whoever watches it.

The worker counts, and publishes a frozen copy between two steps; `Engine.snapshot` puts it together with what
else is known. Readers, on any thread, wait for nobody and are waited for by nobody.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from inference.memory import MemoryPlan
from inference.ownership import conversation_of
from inference.sequence import Sequence
from inference.types import FinishReason, ModelDescription, ModelPhase

TTFT_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the classes that times to the first token are counted in; one more has all above."""


@dataclass(frozen=True, slots=True)
class RunningReply:
    """One reply as it was between two steps.

    `conversation` is where it is written. `computed_tokens` are in its KV cache, `cached_tokens` of them
    reused; it may come to hold `longest`. decode_tok_s: tokens after the first per second, None before there
    are two.
    """

    id: str
    conversation: str
    prompt_tokens: int
    computed_tokens: int
    cached_tokens: int
    completion_tokens: int
    longest: int
    decode_tok_s: float | None

    @property
    def in_prefill(self) -> bool:
        """Whether some of the prompt is still to be read."""
        return self.computed_tokens < self.prompt_tokens


@dataclass(frozen=True, slots=True)
class Counts:
    """What was done for requests since the process began; it only grows, also over a worker's death.

    Of the `prompt_tokens` of the requests that were begun, `cached_tokens` were reused; `prefill_tokens` were
    computed in `prefill_s` seconds. Of the `completion_tokens` written, `decode_tokens` are not the first of
    their reply: they took `decode_steps`, and `writing_s` summed over the replies that were being written at
    a time, waiting for others' prefill included. Steps of any kind took `busy_s`. `ttft_counts` has one class
    more than `TTFT_BOUNDS_S`; `ttft_s` is their sum, `last_ttft_s` the newest.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefill_tokens: int = 0
    prefill_s: float = 0.0
    completion_tokens: int = 0
    decode_tokens: int = 0
    decode_steps: int = 0
    writing_s: float = 0.0
    busy_s: float = 0.0
    ttft_counts: tuple[int, ...] = (0,) * (len(TTFT_BOUNDS_S) + 1)
    ttft_s: float = 0.0
    last_ttft_s: float | None = None

    @property
    def first_tokens(self) -> int:
        """Replies whose first token came."""
        return sum(self.ttft_counts)


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """The engine at one moment. `model` and `plan` are None until one is loaded.

    `waiting` requests are in the queue. `ended` counts replies by the reason of their end.
    """

    phase: ModelPhase
    model: ModelDescription | None
    plan: MemoryPlan | None
    running: tuple[RunningReply, ...] = ()
    waiting: int = 0
    prefix_cache_bytes: int = 0
    prefix_cache_capacity: int = 0
    evicted_blocks: int = 0
    counts: Counts = Counts()
    ended: Mapping[FinishReason, int] = field(default_factory=dict)

    @property
    def kv_used_tokens(self) -> int:
        """Tokens whose keys and values the running replies hold."""
        return sum(reply.computed_tokens for reply in self.running)

    @property
    def kv_promised_tokens(self) -> int:
        """Tokens that the running replies hold or may come to hold: others are admitted beside these."""
        return sum(reply.longest for reply in self.running)

    def kv_bytes(self, tokens: int) -> int:
        """What the keys and values of so many tokens take."""
        return tokens * self.model.kv_bytes_per_token if self.model is not None else 0


class Tally:
    """The worker thread counts here; `ended` may be called by any."""

    def __init__(self) -> None:
        self.running: tuple[RunningReply, ...] = ()
        self.counts = Counts()
        self._prompt_tokens = self._cached_tokens = 0
        self._prefill_tokens, self._prefill_s = 0, 0.0
        self._completion_tokens = self._decode_tokens = self._decode_steps = 0
        self._writing_s = self._busy_s = 0.0
        self._ttft_counts = [0] * (len(TTFT_BOUNDS_S) + 1)
        self._ttft_s = 0.0
        self._last_ttft_s: float | None = None
        self._ended = dict.fromkeys(FinishReason, 0)
        self._lock = threading.Lock()

    def began(self, prompt_tokens: int, cached_tokens: int) -> None:
        """A request left the queue, with so much of its prompt in the prefix cache."""
        self._prompt_tokens += prompt_tokens
        self._cached_tokens += cached_tokens

    def read(self, tokens: int, seconds: float) -> None:
        """A chunk of a prompt was computed."""
        self._prefill_tokens += tokens
        self._prefill_s += seconds

    def wrote(self, *, first: bool) -> None:
        """A token was added to a reply."""
        self._completion_tokens += 1
        self._decode_tokens += not first

    def answered(self, ttft_s: float) -> None:
        """The first token of a reply came, be it the one that ends it."""
        self._ttft_counts[bisect_left(TTFT_BOUNDS_S, ttft_s)] += 1
        self._ttft_s += ttft_s
        self._last_ttft_s = ttft_s

    def stepped(self, seconds: float, writing: int) -> None:
        """A step ended in which so many replies were being written."""
        self._busy_s += seconds
        self._writing_s += seconds * writing
        self._decode_steps += writing > 0

    def publish(self, running: Iterable[Sequence], window: int) -> None:
        """From now on this is what others see."""
        self.running = tuple(_seen(sequence, window) for sequence in running)
        self.counts = Counts(
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            prefill_tokens=self._prefill_tokens,
            prefill_s=self._prefill_s,
            completion_tokens=self._completion_tokens,
            decode_tokens=self._decode_tokens,
            decode_steps=self._decode_steps,
            writing_s=self._writing_s,
            busy_s=self._busy_s,
            ttft_counts=tuple(self._ttft_counts),
            ttft_s=self._ttft_s,
            last_ttft_s=self._last_ttft_s,
        )

    def clear(self) -> None:
        """Nothing runs any more, because the worker died or hangs."""
        self.running = ()

    def ended(self, reason: FinishReason) -> None:
        """A request ended."""
        with self._lock:
            self._ended[reason] += 1

    @property
    def ended_counts(self) -> Mapping[FinishReason, int]:
        """How many requests ended, by the reason."""
        return MappingProxyType(self._ended.copy())


def _seen(sequence: Sequence, window: int) -> RunningReply:
    return RunningReply(
        id=sequence.request.id,
        conversation=conversation_of(sequence.request.owner),
        prompt_tokens=len(sequence.prompt_ids),
        computed_tokens=sequence.kv.length if sequence.kv is not None else 0,
        cached_tokens=sequence.cached_tokens,
        completion_tokens=len(sequence.completion_ids),
        longest=sequence.longest(window),
        decode_tok_s=sequence.decode_tok_s,
    )
