"""The server as one object: the only place that builds the engine, and joins it to the database and
people.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypedDict

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import ExceptionHandler

from inference.backends import load_backend
from inference.config import EngineConfig
from inference.engine import Engine
from inference.errors import InvalidParams
from inference.model_loader import LoadBackend, Prepare
from inference.models.locate import prepare
from inference.models.prepared import PreparedModel, Progress
from inference.text_pieces import TokenizerShelf
from inference.types import ModelStatus
from storage.access import Access
from storage.branches import Branches
from storage.conversations import Conversations
from storage.database import Database
from storage.errors import NotAllowed, NotFound, StorageError
from storage.listing import Listing
from storage.people import People
from storage.preferences import Preferences
from storage.presets import Presets
from storage.scores import Scores
from storage.search import Search
from storage.transfer.exporting import Exports
from storage.usage import Usage
from web import (
    devices,
    pages,
    preferences,
)
from web.access import AccessGuard
from web.activity import Activity
from web.beginning import Beginnings
from web.ending import keep_partials, shut_down
from web.faults import FaultGuard
from web.further_replies import FurtherReplies
from web.generations import Generations
from web.hub import Hub
from web.imports import ImportDesk
from web.languages import Languages, load_languages
from web.lateness import tell_of_stalls
from web.leftovers import forget_deleted, note_leftovers
from web.new_chats import NewChats
from web.presenter import Presenter
from web.prompts import Prompts, cut_of
from web.protocol import InEachLanguage
from web.rereading import Rereading
from web.routes import routes
from web.saving import AGAIN_S, Saving
from web.scorings import Scorings
from web.services import Services
from web.session_checks import go_round
from web.sessions import SessionGuard
from web.settings import Settings
from web.sharing import Sharing
from web.socket_limits import SocketLimits
from web.telemetry import Telemetry
from web.trash import Trash
from web.turns import Turns
from web.waiting import Welcome

START_DELAY_S = 1.0
EXCEPTION_HANDLERS: Mapping[Any, ExceptionHandler] = {
    404: pages.not_found,
    NotFound: pages.not_found,
    NotAllowed: pages.not_allowed,
    HTTPException: pages.refused,
    StorageError: pages.storage_failed,
    InvalidParams: preferences.invalid,
}


class State(TypedDict):
    """What handlers read from `request.state`."""

    services: Services


def build_engine(
    settings: Settings,
    on_status: Callable[[ModelStatus], None],
    *,
    on_hang: Callable[[str], None] = lambda sentence: None,
    keep_prefixes: bool = False,
    prepare_model: Prepare | None = None,
    backend: LoadBackend = load_backend,
) -> Engine:
    """The engine that the settings describe; the last two arguments are for doubles.

    keep_prefixes: whether the prefix cache survives on disk. One process at a time may do that.
    """
    folder = settings.prefix_cache_dir if keep_prefixes else None
    config = replace(settings.engine, prefix_cache_dir=folder)
    return Engine(config, prepare_model or _prepare_configured, backend, on_status, on_hang)


def build_app(
    settings: Settings,
    database: Database,
    *,
    hosts: Container[str],
    sharing: Sharing | None = None,
    limits: SocketLimits | None = None,
    on_status: Callable[[ModelStatus], None] = lambda status: None,
    on_hang: Callable[[str], None] = lambda sentence: None,
    prepare_model: Prepare | None = None,
    backend: LoadBackend = load_backend,
    again_s: float = AGAIN_S,
) -> Starlette:
    """The server for people on `hosts` (values of the Host header). Its lifespan closes the database.

    With `sharing` every request needs a session; without it, whoever reaches this machine's own address is
    the owner.

    `on_status` is told of the model's progress, on the worker thread, beside the pages. `on_hang` is called
    when the worker hangs and every reply is stored, and should end the process. `again_s` is how long the
    server waits before it tries to save something again.
    """

    languages = load_languages()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[State]:
        loop = asyncio.get_running_loop()

        def announce(status: ModelStatus) -> None:
            on_status(status)
            with contextlib.suppress(RuntimeError):  # the loop may have closed by now
                loop.call_soon_threadsafe(services.announce_status)

        def hung(sentence: str) -> None:
            keep_partials(services, loop)
            on_hang(sentence)

        engine = build_engine(
            settings,
            announce,
            on_hang=hung,
            keep_prefixes=True,
            prepare_model=prepare_model,
            backend=backend,
        )
        services = _build_services(
            settings, engine, database, languages, sharing, again_s, limits or SocketLimits()
        )
        await _begin(services)
        watching = [asyncio.create_task(tell_of_stalls(services.activity))]
        if sharing:
            watching.append(asyncio.create_task(go_round(sharing.sessions, services.hub)))
        try:
            yield {"services": services}
        finally:
            for task in watching:
                task.cancel()
            await shut_down(services, database)

    guards = [
        Middleware(AccessGuard, hosts=hosts, languages=languages),
        Middleware(FaultGuard, answer=pages.broke),
        *_guard(languages, sharing),
    ]
    return Starlette(
        routes=routes(), middleware=guards, exception_handlers=EXCEPTION_HANDLERS, lifespan=lifespan
    )


async def _begin(services: Services) -> None:
    """What the last server left is put in order; then the worker starts."""
    await run_in_threadpool(services.imports.clear)
    await note_leftovers(services)
    await services.new_chats.share()
    await run_in_threadpool(forget_deleted, services)
    services.trash.empty_later()
    services.telemetry.start()
    services.engine.start(START_DELAY_S)


def _guard(languages: Languages, sharing: Sharing | None) -> list[Middleware]:
    if sharing is None:
        return [Middleware(Welcome)]
    guard = Middleware(
        SessionGuard, sessions=sharing.sessions, languages=languages, stranger=devices.pairing_page
    )
    return [guard]


def _prepare_configured(
    config: EngineConfig, progress: Progress, cancelled: threading.Event
) -> PreparedModel:
    return prepare(config.model, models_dir=config.models_dir, progress=progress, cancelled=cancelled)


def _build_services(
    settings: Settings,
    engine: Engine,
    database: Database,
    languages: Languages,
    sharing: Sharing | None,
    again_s: float,
    limits: SocketLimits,
) -> Services:
    loop = asyncio.get_running_loop()

    async def conclude(reply_id: str) -> InEachLanguage:
        return await services.finished_frames(reply_id)

    async def announce(conversation_id: str) -> None:
        with contextlib.suppress(NotFound):  # deleted meanwhile, which was told
            conversation = await run_in_threadpool(conversations.get, conversation_id)
            await services.announce_conversations(conversation)

    async def announce_imported() -> None:
        with contextlib.suppress(StorageError):  # it may have been closed by now
            await services.announce_conversations()

    def imported() -> None:
        with contextlib.suppress(RuntimeError):  # the loop too
            asyncio.run_coroutine_threadsafe(announce_imported(), loop)

    conversations = Conversations(database)
    kept_presets, kept_preferences = Presets(database), Preferences(database)
    saving = Saving(database, lambda: services.announce_status(), again_s, tells_folder=sharing is None)
    activity = Activity()
    generations = Generations(engine, conversations, saving, activity, conclude, announce)
    new_chats = NewChats(engine, kept_presets, kept_preferences)
    prompts = Prompts(engine, conversations, new_chats)
    branches, listing = Branches(database, cut_of), Listing(database)
    rereading = Rereading(conversations, prompts)
    beginnings = Beginnings(engine, conversations, generations, prompts)
    services = Services(
        engine=engine,
        access=Access(database),
        people=People(database),
        conversations=conversations,
        branches=branches,
        listing=listing,
        search=Search(database),
        trash=Trash(engine, conversations, branches, listing, prompts),
        generations=generations,
        saving=saving,
        turns=Turns(beginnings, FurtherReplies(beginnings, prompts, rereading), prompts),
        rereading=rereading,
        scorings=Scorings(engine, conversations, Scores(database), rereading),
        prompts=prompts,
        new_chats=new_chats,
        presets=kept_presets,
        preferences=kept_preferences,
        exports=Exports(database),
        imports=ImportDesk(settings.imports_dir, database.path, imported),
        hub=Hub(),
        languages=languages,
        presenters={language.code: Presenter(language, languages) for language in languages},
        activity=activity,
        telemetry=Telemetry(engine.snapshot, Usage(database), activity),
        shelf=TokenizerShelf(),
        sharing=sharing,
        limits=limits,
    )
    return services
