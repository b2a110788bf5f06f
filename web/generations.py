"""The running replies: from the engine into the database and to whoever watches. Event loop.

The server owns a reply from `start` on: no socket has to stay open for it. Its text is checkpointed while it
is written; `Finished` goes out only after the whole of it is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from starlette.concurrency import run_in_threadpool

from inference.engine import Engine
from inference.errors import EngineBusy, EngineStopped
from inference.scheduler import Place
from inference.stream import EventStream
from inference.types import Finished, FinishReason, GenerationRequest, Timings, Usage
from storage.conversations import Conversations
from storage.errors import NotFound, NotWritable, StorageError
from storage.records import ReplyEnd, Status
from web import protocol
from web.activity import Activity
from web.generation import Generation, Prior
from web.saving import Saving
from web.scorings import ran_on

logger = logging.getLogger(__name__)

RENDER_INTERVAL_S = 0.1
RENDER_SHARE = 5  # rendering one reply may take a fifth of the time at most
CHECKPOINT_S = 1.0
CHECKPOINT_TOKENS = 64

Conclude: TypeAlias = Callable[[str], Awaitable[protocol.InEachLanguage]]
"""Makes the `finished` frames of a stored reply, by its id."""

Announce: TypeAlias = Callable[[str], Awaitable[None]]
"""Tells the pages that a conversation has no running reply any more, by its id."""


@dataclass(slots=True)
class _Saved:
    """How much of a reply is on the disk."""

    at: float
    tokens: int = 0

    def is_due(self, tokens: int) -> bool:
        grown = tokens - self.tokens
        return grown >= CHECKPOINT_TOKENS or (grown > 0 and time.monotonic() - self.at >= CHECKPOINT_S)


class Generations:
    """All replies that are being written."""

    def __init__(
        self,
        engine: Engine,
        conversations: Conversations,
        saving: Saving,
        activity: Activity,
        conclude: Conclude,
        announce: Announce,
    ) -> None:
        self._engine = engine
        self._conversations = conversations
        self._saving = saving
        self._activity = activity
        self._conclude = conclude
        self._announce = announce
        self._running: dict[str, Generation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def get(self, reply_id: str) -> Generation | None:
        """The running reply with that id."""
        return self._running.get(reply_id)

    def in_conversation(self, conversation_id: str) -> list[Generation]:
        """The replies that are being written in a conversation, each in another branch."""
        return [g for g in self._running.values() if g.conversation_id == conversation_id]

    def start(
        self,
        conversation_id: str,
        request: GenerationRequest,
        context: dict[str, Any],
        place: Place,
        prior: Prior | None = None,
    ) -> Generation:
        """Begin to write the reply `request.id`, in a reserved place; `context` is kept with its end. With
        `prior` it goes on.
        """
        generation = Generation(conversation_id, request.id, prior)
        self._running[request.id] = generation
        self._activity.note(request.id, goes_on=True)
        stream = EventStream(asyncio.get_running_loop())
        try:
            self._engine.submit(request, stream.put, place)
        except (EngineBusy, EngineStopped) as error:  # stored already: its end is too
            stream.put(_refused(request, str(error)))
        task = asyncio.create_task(self._write(generation, stream, context))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return generation

    def stop(self, reply_id: str) -> bool:
        """Ask for a reply to end; False when it is not running."""
        if reply_id not in self._running:
            return False
        self._engine.abort(reply_id)
        return True

    def begin_closing(self) -> None:
        """From now on, a reply that is ended counts as interrupted."""
        self._closing = True

    async def close(self) -> None:
        """End every reply, and wait until all are stored."""
        for reply_id in list(self._running):
            self._engine.abort(reply_id)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    async def _write(self, generation: Generation, stream: EventStream, context: dict[str, Any]) -> None:
        reply_id = generation.reply_id
        try:
            finished = await self._follow(generation, stream)
            end = self._as_end(generation, finished, context)
            await self._store(generation, end)
            frame: protocol.InEachLanguage | protocol.Error = await self._conclude(reply_id)
        except StorageError as error:
            logger.error("reply %s could not be stored: %s", reply_id, error)
            frame = protocol.Error("storage", str(error), reply_id)
        except NotFound:  # its conversation was deleted meanwhile, and has left its KV behind
            await run_in_threadpool(self._engine.forget, generation.conversation_id)
            frame = protocol.Error("not_found", "This conversation was deleted.", reply_id)
        except Exception:
            logger.exception("reply %s broke off", reply_id)
            self._engine.abort(reply_id)
            frame = protocol.Error("storage", "The server failed while it wrote this reply.", reply_id)
        self._running.pop(reply_id, None)
        self._activity.note(reply_id, goes_on=False)
        generation.end(frame)
        with contextlib.suppress(StorageError):  # the list is told again with the next change
            await self._announce(generation.conversation_id)

    async def _store(self, generation: Generation, end: ReplyEnd) -> None:
        """Store it, now or as soon as the disk takes it. Until then it is shown to its end, as running."""
        while True:
            try:
                await run_in_threadpool(self._conversations.finish, generation.reply_id, end)
                return
            except NotWritable as error:
                if self._closing:
                    raise
                logger.error("reply %s is in memory alone: %s", generation.reply_id, error)
            await generation.render()
            with self._saving.keeping_reply():
                await self._saving.until_it_works()

    async def _follow(self, generation: Generation, stream: EventStream) -> Finished:
        """Take the engine's events until the last one, rendering and saving on the way."""
        showing = asyncio.create_task(self._show(generation))
        try:
            async for event in stream:
                generation.take(event)
                if isinstance(event, Finished):
                    return event
        finally:
            showing.cancel()
            await asyncio.wait([showing])
        raise RuntimeError("the engine's events ended without a last one")

    async def _show(self, generation: Generation) -> None:
        """Render at most ten times a second, and save what is due meanwhile: no text waits for the disk."""
        saved = _Saved(time.monotonic(), len(generation.token_ids))
        saving: asyncio.Task[_Saved] | None = None
        try:
            while True:
                await generation.news.wait()
                generation.news.clear()
                started = time.monotonic()
                await generation.render()
                rendered = time.monotonic()
                if saving is not None and saving.done():
                    saved, saving = saving.result(), None
                is_due = saved.is_due(len(generation.token_ids)) and self._saving.unsaved is None
                if saving is None and is_due:
                    saving = asyncio.create_task(self._save(generation))
                await asyncio.sleep(max(RENDER_INTERVAL_S, RENDER_SHARE * (rendered - started)))
        finally:
            if saving is not None:
                await saving

    async def _save(self, generation: Generation) -> _Saved:
        token_ids, reasoning = tuple(generation.token_ids), generation.reasoning or None
        save = self._conversations.checkpoint
        try:
            await run_in_threadpool(save, generation.reply_id, generation.text, token_ids, reasoning)
        except StorageError as error:  # the end will be tried again, and told
            logger.warning("reply %s: checkpoint failed: %s", generation.reply_id, error)
        return _Saved(time.monotonic(), len(token_ids))

    def _as_end(self, generation: Generation, finished: Finished, context: dict[str, Any]) -> ReplyEnd:
        cut_short = self._closing and finished.reason is FinishReason.ABORT
        lost = context.get("reuse_lost") or finished.reuse_lost
        return ReplyEnd(
            text=generation.text,
            token_ids=tuple(generation.token_ids),
            status=Status.INTERRUPTED if cut_short else Status.DONE,
            finish_reason=None if cut_short else finished.reason.value,
            usage=asdict(finished.usage),
            timings={
                **asdict(finished.timings),
                "reasoning_s": generation.reasoning_s,
                "first_shown_s": generation.first_shown_s,
                "renders": generation.renders,
                "render_s": generation.render_s,
            },
            context={**context, "reuse_lost": lost, "ran_on": ran_on(self._engine)},
            error=finished.error,
            reasoning=generation.reasoning or None,
        )


def _refused(request: GenerationRequest, message: str) -> Finished:
    """The end of a reply that the engine did not take."""
    usage = Usage(len(request.prompt_ids), 0, 0)
    timings = Timings(queue_s=0.0, prefill_s=0.0, ttft_s=None, decode_s=0.0, total_s=0.0)
    return Finished(FinishReason.ERROR, usage, timings, message)
