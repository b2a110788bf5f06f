"""What becomes of a conversation in the list, by POST; and the list's further pieces."""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from storage.errors import NotFound
from web.listing import BadPlace, place_of, read_page
from web.pages import small_body
from web.services import Services
from web.zones import zone_of


class Rename(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a rename."""

    title: Annotated[str, Meta(min_length=1, max_length=200)]


class Switch(msgspec.Struct, forbid_unknown_fields=True):
    """The body of what can be so or not: pinned, archived."""

    on: bool


async def piece(request: Request) -> Response:
    """A further piece of the list, or all of it that a page shows, as it is now."""
    services: Services = request.state.services
    asked = request.query_params
    try:
        before, until = (place_of(asked[name]) if name in asked else None for name in ("before", "until"))
    except BadPlace as error:
        raise HTTPException(400, str(error)) from None
    page = await read_page(
        services.listing,
        services.is_running,
        zone_of(request),
        archived="archived" in asked,
        before=before,
        until=until,
    )
    return HTMLResponse(await run_in_threadpool(services.presenter(request).conversations, page, None))


async def rename(request: Request) -> Response:
    """Give a conversation another title."""
    services: Services = request.state.services
    try:
        body = msgspec.json.decode(await small_body(request), type=Rename)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise HTTPException(400, "A title of 1 to 200 characters is needed.") from None
    await run_in_threadpool(services.conversations.rename, request.path_params["id"], body.title.strip())
    await services.announce_conversations()
    return Response(status_code=204)


async def pin(request: Request) -> Response:
    """Put a conversation before all others, or back."""
    services: Services = request.state.services
    switch = await _switch(request)
    await run_in_threadpool(services.listing.pin, request.path_params["id"], switch.on)
    await services.announce_conversations()
    return Response(status_code=204)


async def archive(request: Request) -> Response:
    """Put a conversation out of the list, or back."""
    services: Services = request.state.services
    switch = await _switch(request)
    await run_in_threadpool(services.listing.archive, request.path_params["id"], switch.on)
    await services.announce_conversations()
    return Response(status_code=204)


async def delete(request: Request) -> Response:
    """Delete a conversation so that it can be brought back for a minute; its running replies are stopped."""
    services: Services = request.state.services
    conversation_id = request.path_params["id"]
    for running in services.generations.in_conversation(conversation_id):
        services.generations.stop(running.reply_id)
    with contextlib.suppress(NotFound):  # gone already: what was asked for is so
        await run_in_threadpool(services.listing.delete, conversation_id)
    services.trash.empty_later()
    services.announce_deleted(conversation_id, deleted=True)
    await services.announce_conversations()
    return Response(status_code=204)


async def restore(request: Request) -> Response:
    """Bring a conversation back that was deleted."""
    services: Services = request.state.services
    conversation_id = request.path_params["id"]
    await run_in_threadpool(services.listing.restore, conversation_id)
    services.announce_deleted(conversation_id, deleted=False)
    await services.announce_conversations()
    return Response(status_code=204)


async def _switch(request: Request) -> Switch:
    try:
        return msgspec.json.decode(await small_body(request), type=Switch)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise HTTPException(400, "Whether it is to be on or off is needed.") from None
