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
from inference.types import ModelStatus
from storage.database import Database
from storage.errors import NotAllowed, NotFound, StorageError
from web import (
    devices,
    pages,
    preferences,
)
from web.access import AccessGuard
from web.building import build_services
from web.ending import keep_partials, shut_down
from web.faults import FaultGuard
from web.languages import Languages, load_languages
from web.lateness import tell_of_stalls
from web.leftovers import forget_deleted, note_leftovers
from web.routes import routes
from web.saving import AGAIN_S
from web.services import Services
from web.session_checks import go_round
from web.sessions import SessionGuard
from web.settings import Settings
from web.sharing import Sharing
from web.socket_limits import SocketLimits
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

    def build(announce: Callable[[ModelStatus], None], hung: Callable[[str], None]) -> Services:
        engine = build_engine(
            settings,
            announce,
            on_hang=hung,
            keep_prefixes=True,
            prepare_model=prepare_model,
            backend=backend,
        )
        return build_services(
            settings, engine, database, languages, sharing, limits or SocketLimits(), again_s=again_s
        )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[State]:
        async with _serving(build, database, on_status, on_hang) as services:
            yield {"services": services}

    guards = [
        Middleware(AccessGuard, hosts=hosts, languages=languages),
        Middleware(FaultGuard, answer=pages.broke),
        *_guard(languages, sharing),
    ]
    return Starlette(
        routes=routes(), middleware=guards, exception_handlers=EXCEPTION_HANDLERS, lifespan=lifespan
    )


@asynccontextmanager
async def _serving(
    build: Callable[[Callable[[ModelStatus], None], Callable[[str], None]], Services],
    database: Database,
    on_status: Callable[[ModelStatus], None],
    on_hang: Callable[[str], None],
) -> AsyncIterator[Services]:
    """The services from their first to their last moment. Whoever builds them is given what the engine calls
    when the model's state changes, and when its worker hangs.
    """
    loop = asyncio.get_running_loop()

    def announce(status: ModelStatus) -> None:
        on_status(status)
        with contextlib.suppress(RuntimeError):  # the loop may have closed by now
            loop.call_soon_threadsafe(services.announce_status)

    def hung(sentence: str) -> None:
        keep_partials(services, loop)
        on_hang(sentence)

    services = build(announce, hung)
    await _begin(services)
    watching = [asyncio.create_task(tell_of_stalls(services.activity))]
    if services.sharing:
        watching.append(asyncio.create_task(go_round(services.sharing.sessions, services.hub)))
    try:
        yield services
    finally:
        for task in watching:
            task.cancel()
        await shut_down(services, database)


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
