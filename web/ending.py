"""How the server ends: in order, or at once because the worker hangs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import sys
from typing import NoReturn

from starlette.concurrency import run_in_threadpool

from storage.database import Database
from web.services import Services

logger = logging.getLogger(__name__)

EXIT_HUNG = 70  # "internal software error" in sysexits.h
SAVE_S = 10.0
TELL_S = 0.2
"""What the pages' sockets get to send what was said last."""


async def shut_down(services: Services, database: Database) -> None:
    """Replies end with the worker, and are stored; the database goes last, so that all of them are."""
    services.trash.close()
    await run_in_threadpool(services.imports.close)
    services.telemetry.close()
    services.generations.begin_closing()
    services.saving.close()
    await run_in_threadpool(services.engine.stop)
    await services.generations.close()
    await run_in_threadpool(database.close)


def keep_partials(services: Services, loop: asyncio.AbstractEventLoop) -> None:
    """Store every reply of a worker that hangs, as interrupted, and tell those who watch. Not on the loop.

    Where the loop hangs too, replies stay as they were last checkpointed; the next start marks them.
    """

    async def keep() -> None:
        services.announce_status()
        services.generations.begin_closing()
        services.saving.close()
        await services.generations.close()
        await asyncio.sleep(TELL_S)

    keeping = keep()
    try:
        asyncio.run_coroutine_threadsafe(keeping, loop).result(SAVE_S)
    except (RuntimeError, TimeoutError, concurrent.futures.CancelledError) as error:
        keeping.close()
        logger.error("not every reply could be stored to its end: %r", error)


def exit_hung(sentence: str) -> NoReturn:
    """End the process although a thread of it cannot be ended."""
    print(f"ondol: {sentence} What was written is kept. Start Ondol again.", file=sys.stderr, flush=True)
    os._exit(EXIT_HUNG)
