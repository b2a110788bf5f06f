"""What is saved while a reply is written, on a disk that takes its time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inference.types import (
    Delta,
    Event,
    Finished,
    FinishReason,
    GenerationRequest,
    SamplingParams,
    Timings,
    Usage,
)
from storage.database import Database
from tests.web.client import WAIT_S
from web import protocol
from web.activity import Activity
from web.generation import Generation
from web.generations import CHECKPOINT_TOKENS, Generations
from web.saving import Saving

END = Finished(FinishReason.STOP, Usage(1, 0, 1), Timings(0.0, 0.0, None, 0.0, 0.0))


class Disk:
    """Conversations whose checkpoints wait for a word; notes what is over."""

    def __init__(self) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.over: list[str] = []

    def checkpoint(self, *_: Any) -> None:
        self.begun.set()
        assert self.may_go_on.wait(WAIT_S)
        self.over.append("checkpoint")

    def finish(self, *_: Any) -> None:
        self.over.append("end")


class Model:
    """An engine that says what it is told to say."""

    description = plan = tokenizing = None

    def submit(self, request: GenerationRequest, emit: Callable[[Event], None], place: object) -> None:
        self.emit = emit

    def abort(self, request_id: str) -> None:
        return


async def shows(generation: Generation, text: str) -> None:
    news = asyncio.Event()
    generation.subscribe(news.set)
    async with asyncio.timeout(WAIT_S):
        while text not in generation.view().tail:
            await news.wait()
            news.clear()


def test_text_is_shown_while_a_checkpoint_waits_for_the_disk_and_the_end_comes_after_it(
    tmp_path: Path,
) -> None:
    database = Database.open(tmp_path)
    disk, model = Disk(), Model()

    async def conclude(reply_id: str) -> protocol.Error:
        return protocol.Error("internal", "over")

    async def announce(conversation_id: str) -> None:
        return

    async def write() -> None:
        saving = Saving(database, lambda: None)
        generations = Generations(model, disk, saving, Activity(), conclude, announce)
        generation = generations.start("chat", GenerationRequest("reply", (1,), SamplingParams()), {}, None)
        model.emit(Delta("first ", tuple(range(CHECKPOINT_TOKENS))))
        await shows(generation, "first")
        assert await asyncio.to_thread(disk.begun.wait, WAIT_S)
        model.emit(Delta("second", (1,)))
        await shows(generation, "second")
        assert disk.over == []
        model.emit(END)
        await asyncio.sleep(0.05)  # long enough for an end that does not wait
        assert disk.over == []
        disk.may_go_on.set()
        await generations.close()

    asyncio.run(write())
    database.close()
    assert disk.over == ["checkpoint", "end"]
