"""The values that cross the borders of `inference`: messages in, events out. Frozen, torch-free."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from inference.errors import InvalidParams

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
    """

    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None
    pinned: bool = False
    key: str = ""


MAX_TOKENS_LIMIT = 1_000_000
MAX_STOP_STRINGS = 8
MAX_STOP_LENGTH = 200
MAX_SEED = 2**63 - 1


def _require(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise InvalidParams(f"{name} is {value!r}; it must be {allowed}.")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. Values out of range raise `InvalidParams`.

    temperature: 0 is greedy; otherwise logits are divided by it. 0 to 5.
    top_p: the smallest set of tokens whose probabilities sum to it stays. Above 0, up to 1; 1 is off.
    top_k: only the k likeliest stay. 0 is off.
    seed: the noise of token i depends on (seed, i) alone. None draws a seed, which the reply records.
    max_tokens: the most tokens a reply may have. None leaves the choice to the server's reserve.
    stop: the reply ends before the first of these strings.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require(0 <= self.temperature <= 5, "temperature", self.temperature, "from 0 to 5")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        _require(0 <= self.top_k <= 1_000_000, "top_k", self.top_k, "from 0 to 1,000,000")
        _require(
            self.seed is None or 0 <= self.seed <= MAX_SEED, "seed", self.seed, f"from 0 to {MAX_SEED:,}"
        )
        _require(
            self.max_tokens is None or 1 <= self.max_tokens <= MAX_TOKENS_LIMIT,
            "max_tokens",
            self.max_tokens,
            f"from 1 to {MAX_TOKENS_LIMIT:,}",
        )
        _require(
            len(self.stop) <= MAX_STOP_STRINGS, "stop", len(self.stop), f"at most {MAX_STOP_STRINGS} strings"
        )
        for text in self.stop:
            _require(
                0 < len(text) <= MAX_STOP_LENGTH, "stop", text[:20], f"1 to {MAX_STOP_LENGTH} characters long"
            )


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt that is already tokenized, and how to continue it.

    `params.seed` and `params.max_tokens` are filled in by now. `client` is who asks, for fair turns. `owner`
    is the conversation whose KV this is, to be forgotten with it. `reusable_tokens` of the prompt were
    computed by an earlier turn: where fewer are cached, the engine says why if it knows.
    """

    id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    client: str = ""
    owner: str = ""
    reusable_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one reply. `cached_tokens` of the `prompt_tokens` were not computed again."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time of one reply went, in seconds.

    queue_s: submit to the start of prefill. prefill_s: the prompt's computation. ttft_s: submit to first
    token (None when there was none). decode_s: first token to last. stop_s: the ask to stop until the
    computation had ended (None unless stopped). decode_tok_s: tokens after the first, per second of
    `decode_s`. prefill_tok_s: tokens computed (cached ones left out) per second of `prefill_s`.
    """

    queue_s: float
    prefill_s: float
    ttft_s: float | None
    decode_s: float
    total_s: float
    prefill_tok_s: float | None = None
    decode_tok_s: float | None = None
    stop_s: float | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits. `position` is 1 for the next in line; `eta_s` is None before anything was
    measured.
    """

    position: int
    eta_s: float | None = None


@dataclass(frozen=True, slots=True)
class Prefill:
    """`done` of `total` prompt tokens are in the KV cache; `cached` of them were reused."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class Delta:
    """New text, and the ids of the tokens behind it. Text may lag behind ids while a character is
    incomplete.
    """

    text: str
    token_ids: tuple[int, ...]


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
    eos_token_ids: tuple[int, ...] = field(default=())
