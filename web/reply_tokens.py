"""The tokens of a reply: its page, windows of them, and having their probabilities computed. Over HTTP."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from inference.pieces import Piece, Pieces
from inference.scoring import TokenScores
from storage.access import Right
from storage.errors import NotFound
from storage.records import MessageRecord, ScoresRecord
from web.errors import KNOWN_ERRORS, Refused
from web.pages import refusal_of
from web.permissions import reply_for
from web.review_views import ReplyTokensPage
from web.services import Services

WINDOW = 500
"""Tokens that a page asks for at a time."""

MOST = 2_000


async def page(request: Request) -> Response:
    """The page of one reply's tokens."""
    services: Services = request.state.services
    reply = await reply_for(request, Right.READ)
    kept = await services.scorings.kept(reply.id)
    state = await services.scorings.progress(reply.id)
    conversation = await run_in_threadpool(services.conversations.get, reply.conversation_id)
    tokenizing = services.engine.tokenizing
    view = ReplyTokensPage(
        id=reply.id,
        conversation_id=conversation.id,
        title=conversation.title,
        tokens=len(reply.token_ids or ()),
        window=WINDOW,
        model=reply.model,
        loaded=tokenizing.model.name if tokenizing else None,
        pieces=_pieces_for(services, reply) is not None,
        obstacle=None if kept else await run_in_threadpool(_obstacle, services, reply),
        state=state.state,
        computed_by={"model": kept.model, **kept.computed_by} if kept else None,
    )
    return HTMLResponse(await run_in_threadpool(services.presenter(request).reply_tokens, view))


async def window(request: Request) -> Response:
    """Some of the tokens, from the one with the number `from`, counted from 0."""
    services: Services = request.state.services
    start, count = _number(request, "from", 0), min(MOST, _number(request, "count", WINDOW))
    reply = await reply_for(request, Right.READ)
    kept = await services.scorings.kept(reply.id)
    body = await run_in_threadpool(_window, reply, kept, _pieces_for(services, reply), start, count)
    return JSONResponse(body)


async def progress(request: Request) -> Response:
    """How far the scoring of a reply is."""
    services: Services = request.state.services
    state = await services.scorings.progress((await reply_for(request, Right.READ)).id)
    sentence = services.languages.of(request).sentence(state.error)
    return JSONResponse({**asdict(state), "error": sentence})


async def begin(request: Request) -> Response:
    """Have a reply scored. Repeated, it does nothing twice."""
    services: Services = request.state.services
    reply = await reply_for(request, Right.READ)
    try:
        await services.scorings.begin(reply.id)
    except NotFound:
        raise
    except KNOWN_ERRORS as error:
        return refusal_of(request, 409, str(error))
    return await progress(request)


async def stop(request: Request) -> Response:
    """Have the scoring of a reply end."""
    services: Services = request.state.services
    reply = await reply_for(request, Right.READ)
    services.scorings.stop(reply.id)
    return Response(status_code=204)


def _number(request: Request, name: str, otherwise: int) -> int:
    text = request.query_params.get(name, str(otherwise))
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise HTTPException(400, f"“{name}” must be a whole number.")
    return int(text)


def _obstacle(services: Services, reply: MessageRecord) -> str | None:
    try:
        services.rereading.of(reply)
    except Refused as refused:
        return str(refused)
    return None


def _pieces_for(services: Services, reply: MessageRecord) -> Pieces | None:
    """The vocabulary of the model that wrote a reply, where that is the installed one."""
    tokenizing = services.engine.tokenizing
    if tokenizing is None or tokenizing.model.name != reply.model:
        return None
    return tokenizing.tokenizer.pieces


def _window(
    reply: MessageRecord, kept: ScoresRecord | None, pieces: Pieces | None, start: int, count: int
) -> dict[str, Any]:
    ids = reply.token_ids or ()
    stop = min(len(ids), start + count)
    split = _split(pieces, ids) if pieces is not None else None
    scores = TokenScores.unpack(kept.data, len(ids)) if kept is not None else None
    return {
        "total": len(ids),
        "from": start,
        "tokens": [
            {
                "id": ids[place],
                **(_spelled(split[place]) if split is not None else {}),
                **(_scored(scores, place, pieces) if scores is not None else {}),
            }
            for place in range(start, stop)
        ],
    }


def _spelled(piece: Piece) -> dict[str, Any]:
    return {
        "text": piece.text,
        "bytes": piece.data.hex(" "),
        "group": piece.group,
        **({"special": True} if piece.special else {}),
    }


def _scored(scores: TokenScores, place: int, pieces: Pieces | None) -> dict[str, Any]:
    top = zip(scores.top_ids[place].tolist(), scores.top_logprobs[place].tolist(), strict=True)
    return {
        "p": math.exp(float(scores.logprobs[place])),
        "rank": int(scores.ranks[place]),
        "top": [[token, pieces.text(token) if pieces else "", math.exp(logprob)] for token, logprob in top],
    }


@lru_cache(maxsize=4)
def _split(pieces: Pieces, ids: tuple[int, ...]) -> Sequence[Piece]:
    """Groups reach over windows, so all of a reply is split at once."""
    return tuple(pieces.split(ids))
