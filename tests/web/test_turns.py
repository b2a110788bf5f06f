"""What a turn stores, and that what is stored is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
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


def test_every_sampling_param_is_stored() -> None:
    params = SamplingParams(min_p=0.1, frequency_penalty=0.5, seed=3, stop=("END",), ignore_eos=True)
    stored = json.loads(json.dumps(as_json(params)))
    assert stored == {field.name: getattr(params, field.name) for field in fields(params)} | {"stop": ["END"]}


def test_a_message_whose_sender_went_while_it_was_stored_is_answered(tmp_path: Path) -> None:
    asyncio.run(_send_and_go(tmp_path))


async def _send_and_go(folder: Path) -> None:
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
        conversations = HeldConversations(database)
        prompts = services.prompts
        beginnings = Beginnings(services.engine, conversations, services.generations, prompts)
        turns = Turns(beginnings, FurtherReplies(beginnings, prompts, services.rereading), prompts)
        sending = asyncio.create_task(turns.begin(Send(id="one", text="hello"), OWNER))
        assert await asyncio.to_thread(conversations.reached.wait, WAIT_S)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
        conversations.free.set()
        assert await asyncio.to_thread(_answer, conversations) == "answer"


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
