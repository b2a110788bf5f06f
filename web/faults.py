"""What goes wrong in the server itself: a sentence to the person, one record in the log, the same id in both.

No record has what people wrote in it. Event loop; the formatter on any thread.
"""

from __future__ import annotations

import copy
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import TypeAlias
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inference.errors import EngineStopped, TemplateFailed
from storage.errors import StorageError

logger = logging.getLogger(__name__)

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
OURS = (StorageError, EngineStopped, TemplateFailed)
QUOTING = (ValueError, LookupError)
"""Their messages quote the value that was wrong, which may be somebody's text."""
INTERNAL = 1011

Raised: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def log_fault(error: Exception, ref: str | None = None) -> str:
    """Note an error of the server's own, and not one that is the client's; its id.

    That is `ref`, the id of the command that it befell; without one, an id is made.
    """
    fault = ref or uuid4().hex[:12]
    if isinstance(error, OURS):
        # Of a chat template's failure the kind alone: its words are the model's, and may be a message.
        logger.error(
            "%s failed: %s", fault, error if isinstance(error, StorageError) else type(error).__name__
        )
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
                await send({"type": "websocket.close", "code": INTERNAL})
            elif begun:
                raise  # the connection breaks, so that nothing looks whole
            else:
                await (await self._answer(Request(scope, receive), fault))(scope, receive, send)


def _handler(scope: Scope) -> str:
    endpoint = scope.get("endpoint")
    return f"{endpoint.__module__}.{endpoint.__name__}" if callable(endpoint) else scope["type"]


class DiscreetFormatter(logging.Formatter):
    """Tracebacks without the messages of exceptions that quote values."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)
        record.exc_text = None  # another formatter's
        return super().format(record)

    def formatException(self, ei: Raised) -> str:
        return "".join(_told(ei[1], set())).rstrip() if ei[1] is not None else ""


def _told(error: BaseException, told: set[int]) -> Iterator[str]:
    told.add(id(error))
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None and id(earlier) not in told:
        yield from _told(earlier, told)
        yield "which led to\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__name__}" + ("\n" if isinstance(error, QUOTING) else f": {error}\n")


def log_discreetly() -> None:
    """Have warnings and errors written to standard error so."""
    handler = logging.StreamHandler()
    handler.setFormatter(DiscreetFormatter(FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
