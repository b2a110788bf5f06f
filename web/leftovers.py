"""What the last server left behind: replies that it was writing, and what it had still to forget."""

from __future__ import annotations

import contextlib
import logging

from starlette.concurrency import run_in_threadpool

from storage.errors import NotFound, NotWritable
from web.announcing import show_whole
from web.services import Services

logger = logging.getLogger(__name__)


async def note_leftovers(services: Services) -> None:
    """Replies that were being written when the last server ended are marked, and keep what they have."""
    left = await run_in_threadpool(services.conversations.unfinished)

    async def note() -> None:
        count = await run_in_threadpool(services.conversations.interrupt_leftovers, left)
        if count:
            logger.warning("%d replies were cut short by the last end of the server", count)
        for conversation_id in set(left.values()):
            for watcher in services.hub.watching(conversation_id):
                with contextlib.suppress(NotFound):  # it was deleted meanwhile
                    await show_whole("", conversation_id, services, watcher)

    try:
        await note()
    except NotWritable:  # on a full disk everything can still be read
        services.saving.owe(note)


def forget_deleted(services: Services) -> None:
    """What a server that was killed while it deleted a conversation had not forgotten yet. Blocks."""
    for conversation_id in services.engine.stored_owners():
        try:
            services.conversations.get(conversation_id)
        except NotFound:
            services.engine.forget(conversation_id)
