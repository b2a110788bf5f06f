"""The server as one object: the only place that builds the engine, the database and what stands between them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypedDict

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from inference.backends import load_backend
from inference.engine import Engine, LoadBackend, Prepare
from inference.models.locate import prepare
from inference.types import ModelStatus
from storage.conversations import Conversations
from storage.database import Database
from storage.errors import NotFound, StorageError
from web import pages
from web.access import AccessGuard
from web.chat import chat
from web.generations import Generations
from web.hub import Hub
from web.presenter import STATIC, Presenter
from web.protocol import Finished
from web.services import Services
from web.settings import Settings
from web.turns import Turns

logger = logging.getLogger(__name__)

START_DELAY_S = 1.0


class State(TypedDict):
    """What handlers read from `request.state`."""

    services: Services


class Assets(StaticFiles):
    """Static files whose address changes with their content."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def build_engine(
    settings: Settings,
    on_status: Callable[[ModelStatus], None],
    *,
    prepare_model: Prepare | None = None,
    backend: LoadBackend = load_backend,
) -> Engine:
    """The engine that the settings describe; the last two arguments exist for doubles."""

    def prepare_configured(config, progress, cancelled): ...

    return Engine(settings.engine, prepare_model or prepare_configured, backend, on_status)
