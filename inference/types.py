"""The values that cross the borders of `inference`: messages in, events out. Frozen, torch-free."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from inference.reasoning import ReasoningFormat
from inference.sampling_params import MAX_SEED as MAX_SEED
from inference.sampling_params import SamplingParams as SamplingParams

Role: TypeAlias = Literal["system", "user", "assistant"]


class FinishReason(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    """The model produced its end-of-sequence token or a stop string."""
    LENGTH = "length"
    """`max_tokens` or the context window was reached."""
    ABORT = "abort"
    """Somebody asked for it to stop."""
    ERROR = "error"
    """The computation failed; the text so far is kept."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message as the chat template sees it.

    `token_ids` are the exact ids that were generated, for replies that this model wrote: they are spliced
    into the prompt so that the cached keys and values stay valid. `key` names the message for the caller.
    `reasoning` is what the model thought before a reply, and `thinking` whether it was told to. Of both the
    template makes what it wants.
    """

    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None
    pinned: bool = False
    key: str = ""
    reasoning: str | None = None
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt that is already tokenized, and how to continue it.

    `params.seed` and `params.max_tokens` are filled in by now. `person` is who asks, for fair turns: all that
    name nobody are one. `owner` is the conversation whose KV this is, to be forgotten with it, and `reader`
    is who reuses what is cached, whoever asks (`inference.ownership`). `reusable_tokens` of the prompt were
    computed by an earlier turn: where fewer are cached, the engine says why if it knows. `drafts` lets its
    tokens be guessed ahead where the engine does that (the text is the same). `reasoning` is how the reply
    marks its reasoning, None where this model has none. `reuse_at_most` so many cached tokens (None: all):
    what is computed again in the same pieces is rounded alike, which a reply that is repeated needs.

    The prompt may end with the first `begun` tokens of the reply itself, which was cut short and goes on as
    if it had not been: only what comes after them is emitted.
    """

    id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    person: str = ""
    owner: str = ""
    reader: str | None = None
    reusable_tokens: int = 0
    reasoning: ReasoningFormat | None = None
    drafts: bool = True
    begun: int = 0
    reuse_at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one reply. `cached_tokens` of the `prompt_tokens` were not computed again;
    `reasoning_tokens` of the `completion_tokens` came before the answer. `kv_tokens` had keys and values in
    memory at its end.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    kv_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time of one reply went, in seconds.

    queue_s: submit to the start of prefill. prefill_s: the prompt's computation. ttft_s: submit to first
    token (None when there was none). decode_s: first token to last. stop_s: the ask to stop until the
    computation had ended (None unless stopped). decode_tok_s: tokens after the first, per second of
    `decode_s`. prefill_tok_s: tokens computed (cached ones left out) per second of `prefill_s`.
    accepted_tokens: of the reply's tokens, those that had been guessed, out of `drafted_tokens` guesses.
    reasoning_s: first token to the end of the reasoning (None where there was none).
    """

    queue_s: float
    prefill_s: float
    ttft_s: float | None
    decode_s: float
    total_s: float
    prefill_tok_s: float | None = None
    decode_tok_s: float | None = None
    stop_s: float | None = None
    reasoning_s: float | None = None
    drafted_tokens: int = 0
    accepted_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits. `position` is 1 for the next in line; `eta_s` is None before anything was
    measured, and while the model is `loading`.
    """

    position: int
    eta_s: float | None = None
    loading: bool = False


@dataclass(frozen=True, slots=True)
class Prefill:
    """`done` of `total` prompt tokens are in the KV cache; `cached` of them were reused."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How likely a token was to the model itself: under temperature 1, before penalties and cuts.

    logprob: natural logarithm of its probability. top: the likeliest tokens with theirs, likeliest first;
    as many as were asked for, whether or not the token is among them.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """New text, and the ids of the tokens behind it. Text may lag behind ids while a character is
    incomplete. `logprobs` has one entry a token when they were asked for, else none. `reasoning` is new text
    of what precedes the answer, and `reasoning_s` how long it took so far.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    reasoning: str = ""
    reasoning_s: float | None = None

    def then(self, later: Delta) -> Delta:
        """Both in one."""
        return Delta(
            self.text + later.text,
            self.token_ids + later.token_ids,
            self.logprobs + later.logprobs,
            self.reasoning + later.reasoning,
            self.reasoning_s if later.reasoning_s is None else later.reasoning_s,
        )


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every stream. `error` is a sentence for the person when the reason is `error`."""

    reason: FinishReason
    usage: Usage
    timings: Timings
    error: str | None = None
    reuse_lost: str | None = None


Event: TypeAlias = Queued | Prefill | Delta | Finished


class ModelPhase(StrEnum):
    """How far the model is from answering."""

    WAITING = "waiting"
    DOWNLOADING = "downloading"
    CONVERTING = "converting"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being done about it any more."""
        return self in (ModelPhase.READY, ModelPhase.FAILED)


class WorkerState(StrEnum):
    """How the thread is that loads and runs the model."""

    ALIVE = "alive"
    RESTARTING = "restarting"
    """It died, and another one is loading the model."""
    HUNG = "hung"
    """A step of it does not end; nothing can cure that but a new process."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What the worker is doing about the model. `done` and `total` are bytes while downloading, else zero.

    `message` is one sentence for the person: what is happening, or what failed and what would help.
    """

    phase: ModelPhase
    message: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What runs. Everything here is shown to people.

    name: as people know it. source: the catalogue name, repository, folder or file it came from.
    parameters: the number of weights. context_window: in tokens. quantization: in words, naming what is left
    out. kv_bytes_per_token: bytes of keys and values that one token of context costs.
    free_bytes: memory of the device that was free once the weights were loaded. kernels: the instructions
    that the native backend computes with, empty for others. note: a sentence on what would make it faster.
    """

    name: str
    source: str
    backend: str
    device: str
    quantization: str
    compute_dtype: str
    parameters: int
    weight_bytes: int
    context_window: int
    kv_bytes_per_token: int
    vocab_size: int
    threads: int
    free_bytes: int
    eos_token_ids: tuple[int, ...] = field(default=())
    kernels: str = ""
    note: str = ""
