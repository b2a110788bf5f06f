"""Deleted branches and conversations on their way out: kept for a minute, so that they can be
brought back. Event loop.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from starlette.concurrency import run_in_threadpool

from inference.engine import Engine
from storage.branches import Branches
from storage.conversations import Conversations, utc_now
from storage.errors import NotFound, StorageError
from storage.listing import Listing
from web.prompts import Prompts

logger = logging.getLogger(__name__)

UNDO_S = 60.0


class Trash:
    """Deletes for good what nobody brought back, and what was computed for it."""

    def __init__(
        self,
        engine: Engine,
        conversations: Conversations,
        branches: Branches,
        listing: Listing,
        prompts: Prompts,
    ) -> None:
        self._engine = engine
        self._conversations = conversations
        self._branches = branches
        self._listing = listing
        self._prompts = prompts
        self._tasks: set[asyncio.Task[None]] = set()

    def empty_later(self) -> None:
        """Delete for good, a minute from now, what is deleted by now."""
        task = asyncio.create_task(self._wait_and_empty())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def empty(self, before: datetime) -> None:
        """Delete for good what was deleted before that moment. Blocks.

        First its keys and values: after a crash in between, the rows still say what has to be forgotten.
        """
        for conversation_id in self._listing.overdue(before) | self._branches.overdue(before):
            self._forget(conversation_id)
        self._listing.purge(before)
        self._branches.purge(before)

    def close(self) -> None:
        """What is left is emptied after the next start."""
        for task in self._tasks:
            task.cancel()

    async def _wait_and_empty(self) -> None:
        await asyncio.sleep(UNDO_S)
        try:
            await run_in_threadpool(self.empty, utc_now() - timedelta(seconds=UNDO_S))
        except StorageError as error:
            logger.error("what was deleted is kept until the next start: %s", error)

    def _forget(self, conversation_id: str) -> None:
        """Forget what the conversation computed, except for the branches that it still has."""
        try:
            conversation = self._conversations.get(conversation_id)
            leaves = self._branches.leaves(conversation_id)
            keep = [self._prompts.prompt_ids(conversation, leaf) for leaf in leaves]
        except NotFound:  # deleted meanwhile, or a leaf of it
            keep = []
        self._engine.forget(conversation_id, [ids for ids in keep if ids])
