"""What goes wrong in the server itself: a sentence to the person, one record in the log, the same id in both.

No record has what people wrote in it. Event loop.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inference.errors import EngineStopped, TemplateFailed
from storage.errors import StorageError

logger = logging.getLogger(__name__)

OURS = (StorageError, EngineStopped, TemplateFailed)
INTERNAL = 1011


def log_fault(error: Exception, ref: str | None = None) -> str:
    """Note an error of the server's own, and not one that is the client's; its id.

    That is `ref`, the id of the command that it befell; without one, an id is made.
    """
    fault = ref or uuid4().hex[:12]
    if isinstance(error, OURS):
        # Of a chat template's failure the kind alone: its words are the model's, and may be a message.
        why = str(error) if isinstance(error, StorageError) else type(error).__name__
        logger.error("%s failed: %s", fault, why)
    return fault


class FaultGuard:
    """ASGI middleware for what nobody expected. Inside `AccessGuard`: its answers have every header too."""

    def __init__(self, app: ASGIApp, answer: Callable[[Request, str], Awaitable[Response]]) -> None:
        """`answer` makes the page that tells of a fault with that id."""
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            return  # nobody is there to be told
        except Exception as error:
            fault = uuid4().hex[:12]
            # The handler's name instead of the address, which may hold what somebody searched for.
            logger.error("%s failed: %s", fault, _handler(scope), exc_info=error)
            if scope["type"] == "websocket":
                with contextlib.suppress(OSError, RuntimeError):  # it may be closed by now
                    await send({"type": "websocket.close", "code": INTERNAL})
            elif begun:
                raise  # the connection breaks, so that nothing looks whole
            else:
                await (await self._answer(Request(scope, receive), fault))(scope, receive, send)


def _handler(scope: Scope) -> str:
    endpoint = scope.get("endpoint")
    return f"{endpoint.__module__}.{endpoint.__name__}" if callable(endpoint) else scope["type"]
