"""What becomes of a deleted branch or conversation, and of what was computed for it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from inference.types import ModelPhase, ModelStatus
from storage.conversations import utc_now
from storage.database import Database
from storage.errors import NotFound
from storage.records import OWNER, MessageRecord
from tests.inference.doubles import prepare_double, scripted_loader
from web.app import build_app
from web.commands import Edit, Send
from web.services import Services
from web.settings import Settings

WAIT_S = 20


def test_what_is_deleted_is_forgotten_a_minute_later_and_what_others_read_stays_warm(tmp_path: Path) -> None:
    asyncio.run(_delete_and_empty(tmp_path))


async def _delete_and_empty(folder: Path) -> None:
    ready = threading.Event()

    def on_status(status: ModelStatus) -> None:
        if status.phase is ModelPhase.READY:
            ready.set()

    app = build_app(
        Settings(model="double", data_dir=folder / "data", models_dir=folder),
        Database.open(folder / "data"),
        hosts=(),
        on_status=on_status,
        prepare_model=lambda *_: prepare_double(folder / "model", window=2_048),
        backend=scripted_loader(lambda prompt: "answer", []),
    )
    async with app.router.lifespan_context(app) as state:
        services: Services = state["services"]  # type: ignore[index]
        assert await asyncio.to_thread(ready.wait, WAIT_S)
        chat, first = await _say(services, Send(id="1", text="shared " + "s" * 200))
        place = {"conversation_id": chat}
        _, kept = await _say(services, Send(id="2", text="kept " + "k" * 200, parent_id=first.id, **place))
        question = kept.parent_id or ""
        _, gone = await _say(services, Edit(id="3", text="gone " + "g" * 200, message_id=question, **place))
        conversation = services.conversations.get(chat)
        warm, cold = (services.prompts.prompt_ids(conversation, reply.id) for reply in (kept, gone))
        assert services.engine.cached_tokens(cold) > services.engine.cached_tokens(warm[:300])
        services.branches.delete(chat, gone.parent_id or "")
        before = services.engine.cached_tokens(warm), services.engine.cached_tokens(cold)
        await asyncio.to_thread(services.trash.empty, utc_now())
        assert services.engine.cached_tokens(warm) == before[0]
        assert services.engine.cached_tokens(cold) < before[1] - 200
        with pytest.raises(NotFound):
            services.branches.restore(chat, gone.parent_id or "")
        services.listing.delete(chat)
        assert services.engine.cached_tokens(warm) == before[0]
        await asyncio.to_thread(services.trash.empty, utc_now())
        assert services.engine.cached_tokens(warm) < before[0] - 200
        with pytest.raises(NotFound):
            services.listing.restore(chat)


async def _say(services: Services, command: Send | Edit) -> tuple[str, MessageRecord]:
    """The conversation, and the reply once it has ended."""
    begun = await services.turns.begin(command, OWNER)
    generation, ended = begun.generation, asyncio.Event()
    assert generation is not None
    generation.subscribe(lambda: ended.set() if generation.ended else None)
    await asyncio.wait_for(ended.wait(), WAIT_S)
    return begun.turn.conversation.id, services.conversations.message(begun.turn.reply.id)
