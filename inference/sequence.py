"""Everything about one request while it is in the engine. Made by the caller, then the worker thread's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from inference.detokenizer import Decode
from inference.penalties import TokenCounts
from inference.reply_text import ReplyText
from inference.sampler import Draw, Sampled
from inference.speculation import Acceptance, PromptLookup
from inference.types import (
    Delta,
    Event,
    Finished,
    FinishReason,
    GenerationRequest,
    Prefill,
    Timings,
    Usage,
)


class Sequence:
    """A prompt, what was generated from it, its KV cache, and when things happened."""

    def __init__(self, request: GenerationRequest, emit: Callable[[Event], None], decode: Decode) -> None:
        self.request = request
        self.emit = emit
        self.kv: Any = None
        self.cached_tokens = 0
        self.reuse_lost: str | None = None
        self.completion_ids: list[int] = []
        self.stop_asked_at: float | None = None
        self.acceptance = Acceptance()
        self._lookup: PromptLookup | None = None
        self._text = ReplyText(decode, request.params.stop, request.reasoning)
        self._counts: TokenCounts | None = None
        self._submitted_at = time.monotonic()
        self._started_at: float | None = None
        self._prefilled_at: float | None = None
        self._first_token_at: float | None = None
        self._last_token_at: float | None = None

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """Token ids of the prompt."""
        return self.request.prompt_ids

    @property
    def computed_ids(self) -> tuple[int, ...]:
        """The tokens whose keys and values are in the KV cache."""
        return (*self.prompt_ids, *self.completion_ids)[: self.kv.length] if self.kv is not None else ()

    @property
    def in_prefill(self) -> bool:
        """Whether some of the prompt is still to be computed."""
        return bool(self.kv.length < len(self.prompt_ids))

    @property
    def draw(self) -> Draw:
        """What the next token is sampled with."""
        return Draw(self.request.params, self.request.begun + len(self.completion_ids), self._counts)

    @property
    def stop_asked(self) -> bool:
        """Whether somebody asked for this reply to end."""
        return self.stop_asked_at is not None

    @property
    def ttft_s(self) -> float | None:
        """Seconds from submit to the first token; None before there is one."""
        return self._first_token_at - self._submitted_at if self._first_token_at is not None else None

    @property
    def decode_tok_s(self) -> float | None:
        """Tokens after the first, per second from the first to the last; None before there are two."""
        first, last = self._first_token_at, self._last_token_at
        if first is None or last is None or last <= first:
            return None
        return (len(self.completion_ids) - 1) / (last - first)

    @property
    def running_s(self) -> float:
        """Seconds since the sequence left the queue."""
        return time.monotonic() - self._started_at if self._started_at is not None else 0.0

    def longest(self, window: int) -> int:
        """Tokens of KV that the sequence can come to hold."""
        return min(window, len(self.prompt_ids) + (self.request.params.max_tokens or window))

    def ask_to_stop(self) -> None:
        """Note the first ask to stop. From any thread."""
        if self.stop_asked_at is None:
            self.stop_asked_at = time.monotonic()

    def start(self, kv: Any, *, drafts: bool = False) -> None:
        """The sequence leaves the queue; `kv` holds what the prefix cache had of its prompt. `drafts` says
        whether it will be asked for any.
        """
        self.kv = kv
        if drafts:
            self._lookup = PromptLookup(self.prompt_ids)
        self.cached_tokens = kv.length
        self._take_up()
        self._started_at = time.monotonic()
        self.report_prefill()

    def _take_up(self) -> None:
        """Count and spell what the reply has already, as when it was written: none of it is emitted again."""
        now, said = time.monotonic(), len(self.prompt_ids) - self.request.begun
        if self.request.params.penalizes:
            self._counts = TokenCounts(self.prompt_ids[:said])
        for token_id in self.prompt_ids[said:]:
            if self._counts is not None:
                self._counts.add(token_id)
            self._text.add(token_id, now)
        self._text.flush()  # it was given out when the reply was cut short

    def report_prefill(self) -> None:
        """Tell how far the prompt is read."""
        if not self.in_prefill:
            self._prefilled_at = time.monotonic()
        self.emit(Prefill(self.kv.length, len(self.prompt_ids), self.cached_tokens))

    def next_chunk(self, size: int) -> tuple[int, ...]:
        """The next tokens of the prompt to compute."""
        return self.prompt_ids[self.kv.length : self.kv.length + size]

    def draft(self, window: int) -> tuple[int, ...]:
        """A guess at the tokens after the one that is due, no more than the reply may still have."""
        if self._lookup is None:
            return ()
        return self._lookup.draft(self.longest(window) - len(self.prompt_ids) - len(self.completion_ids) - 1)

    def accept(self, sampled: Sampled, eos_token_ids: tuple[int, ...], window: int) -> FinishReason | None:
        """Take the sampled token; the reason why the reply ends with it, if it does."""
        self._last_token_at = time.monotonic()
        if self._first_token_at is None:
            self._first_token_at = self._last_token_at
        token_id, logprob = sampled.token_id, sampled.logprob
        if token_id in eos_token_ids and not self.request.params.ignore_eos:
            return FinishReason.STOP
        self.completion_ids.append(token_id)
        if self._counts is not None:
            self._counts.add(token_id)
        if self._lookup is not None:
            self._lookup.add(token_id)
        reasoning, text = self._text.add(token_id, self._last_token_at)
        logprobs = (logprob,) if logprob is not None else ()
        self.emit(Delta(text, (token_id,), logprobs, reasoning, self._text.reasoning_s))
        if self._text.stopped:
            return FinishReason.STOP
        length = len(self.completion_ids)
        full = length >= (self.request.params.max_tokens or window)
        return FinishReason.LENGTH if full or len(self.prompt_ids) + length >= window else None

    def finish(self, reason: FinishReason, error: str | None = None) -> None:
        """Emit what was held back, then `Finished`; memory is released."""
        reasoning, text = self._text.flush()
        if reasoning or text:
            self.emit(Delta(text, (), (), reasoning, self._text.reasoning_s))
        written, thought = len(self.completion_ids), self._text.reasoning_tokens
        held = self.kv.length if self.kv is not None else 0
        usage = Usage(len(self.prompt_ids), self.cached_tokens, written, thought, held)
        self.kv = None
        self.emit(Finished(reason, usage, self._timings(), error, self.reuse_lost))

    def _timings(self) -> Timings:
        now = time.monotonic()
        started = self._started_at or now
        prefilled = self._prefilled_at or now
        first, last = self._first_token_at, self._last_token_at
        prefill_s = max(0.0, prefilled - started)
        decode_s = last - first if first is not None and last is not None else 0.0
        computed = len(self.prompt_ids) - self.cached_tokens if self._prefilled_at else 0
        return Timings(
            queue_s=started - self._submitted_at,
            prefill_s=prefill_s,
            ttft_s=self.ttft_s,
            decode_s=decode_s,
            total_s=now - self._submitted_at,
            prefill_tok_s=computed / prefill_s if computed and prefill_s > 0 else None,
            decode_tok_s=self.decode_tok_s,
            stop_s=now - self.stop_asked_at if self.stop_asked_at is not None else None,
            reasoning_s=self._text.reasoning_s,
            drafted_tokens=self.acceptance.drafted,
            accepted_tokens=self.acceptance.accepted,
        )
