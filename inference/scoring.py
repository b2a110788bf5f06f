"""Scoring: how likely the model finds each token of a reply that is already written.

The stored ids are read once more after their prompt, in chunks, and of the logits only figures are kept.
Replies go first: a chunk is read only while none is being written, and where one needs the memory, the keys
and values of a half-scored reply are let go and computed again later. `ScoringRoom` is for any thread,
`Scoring` for the worker.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from inference.backends.base import Backend, Logits
from inference.errors import EngineBusy, EngineStopped, InferenceError, NotANumber, OutOfMemory
from inference.pacing import Pace
from inference.prefix_cache import PrefixCache
from inference.sampler import token_logprob

logger = logging.getLogger(__name__)

MAX_JOBS = 8
LOGITS_BYTES = 16 * 1024 * 1024
"""Of one chunk, at most: so many rows are computed together."""


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A reply's `token_ids` and the exact prompt that they followed. `alternatives`: likeliest tokens to name
    beside each. `reader`: who it may reuse from (`inference.ownership`).
    """

    id: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    alternatives: int
    reader: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """Of n tokens, to the model itself (temperature 1, before penalties and cuts): natural logarithms of
    their probabilities [n], their ranks from 1 [n], and the likeliest k tokens in the place of each,
    likeliest first: ids and log-probabilities [n, k].
    """

    logprobs: npt.NDArray[np.float32]
    ranks: npt.NDArray[np.int32]
    top_ids: npt.NDArray[np.int32]
    top_logprobs: npt.NDArray[np.float32]

    @classmethod
    def empty(cls, tokens: int, alternatives: int) -> TokenScores:
        """Room for so many."""
        shape = (tokens, alternatives)
        return cls(
            np.zeros(tokens, "<f4"), np.zeros(tokens, "<i4"), np.zeros(shape, "<i4"), np.zeros(shape, "<f4")
        )

    def pack(self) -> bytes:
        """All of them as little-endian bytes, one array after another."""
        return b"".join(a.tobytes() for a in (self.logprobs, self.ranks, self.top_ids, self.top_logprobs))

    @classmethod
    def unpack(cls, data: bytes, tokens: int) -> TokenScores:
        """What `pack` made of so many tokens. Raises ValueError where it cannot be that."""
        alternatives, rest = divmod(len(data) - 8 * tokens, 8 * max(1, tokens))
        if alternatives < 0 or rest:
            raise ValueError(f"{len(data)} bytes are not the scores of {tokens} tokens")
        shape, ends = (tokens, alternatives), [4 * tokens, 8 * tokens, 8 * tokens + 4 * tokens * alternatives]
        parts = [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
        return cls(
            np.frombuffer(parts[0], "<f4"),
            np.frombuffer(parts[1], "<i4"),
            np.frombuffer(parts[2], "<i4").reshape(shape),
            np.frombuffer(parts[3], "<f4").reshape(shape),
        )

    def put(self, place: int, logits: Logits, token_id: int) -> None:
        """Score one token from the row of logits before it. Raises `NotANumber`."""
        if not np.isfinite(logits.max()):
            raise NotANumber
        found = token_logprob(logits, token_id, self.top_ids.shape[1])
        self.logprobs[place] = found.logprob
        self.ranks[place] = 1 + np.count_nonzero(logits > logits[token_id])
        self.top_ids[place] = [token for token, _ in found.top]
        self.top_logprobs[place] = [logprob for _, logprob in found.top]


@dataclass(frozen=True, slots=True)
class ScoreProgress:
    """`done` of `total` tokens are scored."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ScoreEnd:
    """The last event. Without scores it was stopped, or failed for the reason in `error`."""

    scores: TokenScores | None = None
    error: str | None = None


ScoreEvent: TypeAlias = ScoreProgress | ScoreEnd


class _Job:
    """One request and how far it is."""

    def __init__(self, request: ScoreRequest, emit: Callable[[ScoreEvent], None]) -> None:
        self.request = request
        self.emit = emit
        self.ids = (*request.prompt_ids, *request.token_ids)
        self.scores = TokenScores.empty(len(request.token_ids), request.alternatives)
        self.done = 0
        self.kv: Any = None
        self.stop_asked = False

    @property
    def due(self) -> int:
        """The place in `ids` whose logits are needed next."""
        return len(self.request.prompt_ids) + self.done - 1


class ScoringRoom:
    """Replies that wait to be scored, in the order they came."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._jobs: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def put(self, request: ScoreRequest, emit: Callable[[ScoreEvent], None]) -> None:
        """Join at the end. Raises `EngineBusy` or `EngineStopped`."""
        with self._lock:
            if self._closed:
                raise EngineStopped("The engine has stopped.")
            if len(self._jobs) >= MAX_JOBS:
                raise EngineBusy(len(self._jobs), MAX_JOBS)
            self._jobs.append(_Job(request, emit))
        self._wake()

    def abort(self, request_id: str) -> None:
        """Ask for one to end, before its next chunk."""
        with self._lock:
            for job in self._jobs:
                job.stop_asked |= job.request.id == request_id
        self._wake()

    def first(self) -> _Job | None:
        """The one that is worked on; whoever was asked to stop comes before."""
        with self._lock:
            return next((job for job in self._jobs if job.stop_asked), self._jobs[0] if self._jobs else None)

    def end(self, job: _Job, end: ScoreEnd) -> None:
        """Take one out; it is told once."""
        with self._lock:
            if job not in self._jobs:
                return
            self._jobs.remove(job)
        job.kv = None
        job.emit(end)

    def end_all(self, error: str | None = None, *, close: bool = False) -> None:
        """End all of them; with `close` nobody is let in any more."""
        with self._lock:
            self._closed |= close
            left = list(self._jobs)
        for job in left:
            self.end(job, ScoreEnd(error=error))


class Scoring:
    """Works on what is in the room. Worker thread only."""

    def __init__(
        self, backend: Backend, cache: PrefixCache, pace: Pace, room: ScoringRoom, window: int
    ) -> None:
        self._backend = backend
        self._cache = cache
        self._pace = pace
        self._room = room
        self._window = window
        self._rows = max(1, LOGITS_BYTES // (4 * max(1, backend.description.vocab_size)))
        self._holder: _Job | None = None

    @property
    def held_tokens(self) -> int:
        """Tokens of KV memory that a half-scored reply takes."""
        return len(self._holder.ids) if self._holder is not None and self._holder.kv is not None else 0

    def let_go(self) -> None:
        """Give that memory back; what was scored stays."""
        if self._holder is not None:
            self._holder.kv = None

    def step(self) -> bool:
        """Read one chunk. False when nobody waits."""
        job = self._room.first()
        if job is None:
            return False
        if job.stop_asked:
            self._room.end(job, ScoreEnd())
            return True
        try:
            self._advance(job)
        except Exception as error:
            logger.error("%s could not be scored", job.request.id, exc_info=error)
            if isinstance(error, OutOfMemory | MemoryError):
                self._cache.release()
            self._room.end(job, ScoreEnd(error=_failure(error)))
        return True

    def _advance(self, job: _Job) -> None:
        total = len(job.request.token_ids)
        if len(job.ids) > self._window:
            error = (
                f"The reply and its prompt have {len(job.ids):,} tokens, but the free memory holds a window "
                f"of {self._window:,}."
            )
            self._room.end(job, ScoreEnd(error=error))
        elif job.done == total:
            self._room.end(job, ScoreEnd(job.scores))
        elif job.kv is None:
            self._holder = job
            job.kv = self._backend.create_kv(len(job.ids))
            self._backend.append_blocks(job.kv, self._cache.match(job.ids[: job.due], job.request.reader))
        elif job.kv.length < job.due:
            stop = min(job.due, job.kv.length + self._pace.chunk(beside_decoding=False))
            self._backend.prefill(job.kv, job.ids[job.kv.length : stop], logits=False)
        else:
            self._score(job)
            job.emit(ScoreProgress(job.done, total))

    def _score(self, job: _Job) -> None:
        rows = min(self._rows, self._pace.chunk(beside_decoding=False))
        chunk = job.ids[job.due : min(job.due + rows, len(job.ids) - 1)]
        for row in self._backend.decode([job.kv], [chunk]):
            job.scores.put(job.done, row, job.request.token_ids[job.done])
            job.done += 1


def _failure(error: Exception) -> str:
    if isinstance(error, InferenceError):
        return str(error)
    if isinstance(error, MemoryError):
        return "The memory for the computation ran out."
    return f"The computation failed: {type(error).__name__}: {error}"
