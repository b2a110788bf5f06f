"""How likely the model found the tokens of replies: people ask, the engine computes, and it is kept.

Event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from starlette.concurrency import run_in_threadpool

from inference.engine import Engine
from inference.kv_shape import KvShape
from inference.models.prepared import PreparedModel
from inference.scoring import ScoreEnd, ScoreEvent, ScoreProgress, ScoreRequest, TokenScores
from inference.types import ModelDescription
from storage.conversations import Conversations
from storage.errors import NotFound, StorageError
from storage.records import MessageRecord, NewScores, ScoresRecord
from storage.scores import Scores
from web.errors import Refused
from web.rereading import Rereading

logger = logging.getLogger(__name__)

ALTERNATIVES = 5
MAX_FAILURES = 64

State: TypeAlias = Literal["none", "running", "failed", "kept"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the scoring of a reply is: `done` of `total` tokens. `error` is an English sentence."""

    state: State
    done: int = 0
    total: int = 0
    error: str = ""


class Scorings:
    """All replies that are being scored, and why the last ones could not be."""

    def __init__(
        self, engine: Engine, conversations: Conversations, scores: Scores, rereading: Rereading
    ) -> None:
        self._engine = engine
        self._conversations = conversations
        self._scores = scores
        self._rereading = rereading
        self._running: dict[str, Progress] = {}
        self._failures: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def kept(self, reply_id: str) -> ScoresRecord | None:
        """What was computed of a reply as it is now. Raises `NotFound`."""
        record: ScoresRecord | None = await run_in_threadpool(self._scores.get, reply_id)
        return record

    async def progress(self, reply_id: str) -> Progress:
        """Raises `NotFound`."""
        running = self._running.get(reply_id)
        if running is not None:
            return running
        if await self.kept(reply_id) is not None:
            return Progress("kept")
        failure = self._failures.get(reply_id)
        return Progress("failed", error=failure) if failure else Progress("none")

    async def begin(self, reply_id: str) -> None:
        """Have a reply scored, unless it is or is being. Raises what `web.errors` knows."""
        reply = await run_in_threadpool(self._conversations.message, reply_id)
        if not reply.token_ids or reply.finished_at is None:
            raise Refused("conflict", "This reply has no tokens that are stored.")
        if reply_id in self._running or await self.kept(reply_id) is not None:
            return
        reread = await run_in_threadpool(self._rereading.of, reply)
        if reply_id in self._running:
            return
        loop = asyncio.get_running_loop()

        def emit(event: ScoreEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have closed by now
                loop.call_soon_threadsafe(self._take, reply, event)

        reader = reread.branch.reader
        request = ScoreRequest(reply_id, reread.prompt_ids, reply.token_ids, ALTERNATIVES, reader)
        self._engine.score(request, emit)
        self._failures.pop(reply_id, None)
        self._running[reply_id] = Progress("running", 0, len(reply.token_ids))

    def stop(self, reply_id: str) -> None:
        """Ask for the scoring of a reply to end."""
        self._engine.abort_score(reply_id)

    def _take(self, reply: MessageRecord, event: ScoreEvent) -> None:
        if isinstance(event, ScoreProgress):
            self._running[reply.id] = Progress("running", event.done, event.total)
            return
        task = asyncio.create_task(self._end(reply, event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, reply: MessageRecord, end: ScoreEnd) -> None:
        error = end.error
        try:
            if end.scores is not None:
                await self._keep(reply, end.scores)
        except StorageError as failure:
            logger.error("the scores of %s could not be stored: %s", reply.id, failure)
            error = str(failure)
        except NotFound:  # deleted meanwhile
            error = None
        self._running.pop(reply.id, None)
        if error:
            self._failures[reply.id] = error
            while len(self._failures) > MAX_FAILURES:
                del self._failures[next(iter(self._failures))]

    async def _keep(self, reply: MessageRecord, scores: TokenScores) -> None:
        tokens = len(reply.token_ids or ())
        new = NewScores(reply.model or "", ran_on(self._engine) or {}, tokens, scores.pack())
        await run_in_threadpool(self._scores.keep, reply.id, new)


def ran_on(engine: Engine) -> dict[str, Any] | None:
    """What computes now, as records keep it; None before the model is loaded. `kv_shape`: layers, heads,
    numbers a head, bytes a number.
    """
    model, tokenizing = engine.description, engine.tokenizing
    if model is None or tokenizing is None:
        return None
    shape = _kv_shape(tokenizing.model, model)
    return {
        "source": model.source,
        "backend": model.backend,
        "device": model.device,
        "quantization": model.quantization,
        "compute_dtype": model.compute_dtype,
        "kv_bytes_per_token": model.kv_bytes_per_token,
        "kv_shape": [shape.layers, shape.heads, shape.head_dim, shape.value_bytes] if shape else None,
    }


@lru_cache(maxsize=2)
def _kv_shape(prepared: PreparedModel, model: ModelDescription) -> KvShape | None:
    return KvShape.of(prepared, model)
