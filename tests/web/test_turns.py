"""What a turn stores, and that what is stored is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path

from inference.types import ModelPhase, ModelStatus, SamplingParams
from storage.conversations import Conversations
from storage.database import Database
from storage.records import OWNER, NewTurn, StartedTurn
from tests.inference.doubles import prepare_double, scripted_loader
from web.app import build_app
from web.beginning import Beginnings
from web.commands import Send
from web.further_replies import FurtherReplies
from web.prompts import as_json
from web.services import Services
from web.settings import Settings
from web.turns import Turns

WAIT_S = 20


class HeldConversations(Conversations):
    """Storage that is slow at the moment."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reached, self.free = threading.Event(), threading.Event()

    def begin_turn(self, turn: NewTurn) -> StartedTurn:
        self.reached.set()
        self.free.wait(WAIT_S)
        return super().begin_turn(turn)


class Committed(Conversations):
    """Storage that has stored and is slow to say so."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reached, self.free = threading.Event(), threading.Event()

    def begin_turn(self, turn: NewTurn) -> StartedTurn:
        started = super().begin_turn(turn)
        self.reached.set()
        self.free.wait(WAIT_S)
        return started


def test_every_sampling_param_is_stored() -> None:
    params = SamplingParams(min_p=0.1, frequency_penalty=0.5, seed=3, stop=("END",), ignore_eos=True)
    stored = json.loads(json.dumps(as_json(params)))
    assert stored == {field.name: getattr(params, field.name) for field in fields(params)} | {"stop": ["END"]}


def test_a_message_whose_sender_went_while_it_was_stored_is_answered(tmp_path: Path) -> None:
    async def send_and_go() -> None:
        async with _turns(tmp_path, HeldConversations) as (turns, conversations):
            sending = asyncio.create_task(turns.begin(Send(id="one", text="hello"), OWNER))
            assert await asyncio.to_thread(conversations.reached.wait, WAIT_S)
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            conversations.free.set()
            assert await asyncio.to_thread(_answer, conversations) == "answer"

    asyncio.run(send_and_go())


def test_a_second_tab_that_sends_the_same_meanwhile_can_follow_its_reply(tmp_path: Path) -> None:
    async def send_twice() -> None:
        async with _turns(tmp_path, Committed) as (turns, conversations):
            first = asyncio.create_task(turns.begin(Send(id="one", text="hello"), OWNER))
            assert await asyncio.to_thread(conversations.reached.wait, WAIT_S)
            second = asyncio.create_task(turns.begin(Send(id="one", text="hello"), OWNER))
            await asyncio.wait([second], timeout=0.1)  # enough for an answer that is given too soon
            conversations.free.set()
            begun, again = await first, await second
            assert again.turn.reply.id == begun.turn.reply.id
            assert again.generation is begun.generation or again.turn.reply.status == "done"

    asyncio.run(send_twice())


@contextlib.asynccontextmanager
async def _turns(
    folder: Path, kind: type[HeldConversations] | type[Committed]
) -> AsyncIterator[tuple[Turns, HeldConversations | Committed]]:
    """A server's turns, over storage of that kind."""
    ready = threading.Event()

    def on_status(status: ModelStatus) -> None:
        if status.phase is ModelPhase.READY:
            ready.set()

    database = Database.open(folder / "data")
    app = build_app(
        Settings(model="double", data_dir=folder / "data", models_dir=folder),
        database,
        hosts=(),
        on_status=on_status,
        prepare_model=lambda *_: prepare_double(folder / "model"),
        backend=scripted_loader(lambda prompt: "answer", []),
    )
    async with app.router.lifespan_context(app) as state:
        services: Services = state["services"]  # type: ignore[index]
        assert await asyncio.to_thread(ready.wait, WAIT_S)
        conversations = kind(database)
        prompts = services.prompts
        beginnings = Beginnings(services.engine, conversations, services.generations, prompts)
        yield (
            Turns(beginnings, FurtherReplies(beginnings, prompts, services.rereading), prompts),
            conversations,
        )


def _answer(conversations: Conversations) -> str:
    """The text of the only reply, once it has ended."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for conversation in conversations.list_recent():
            reply = conversations.path(conversation.id)[-1]
            if reply.status == "done":
                return reply.text
        time.sleep(0.01)
    raise AssertionError("the reply has not ended")
