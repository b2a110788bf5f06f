"""What becomes of a conversation in the list, by POST; and the list's further pieces."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from storage.access import Right
from storage.errors import NotFound
from web.announcing import announce_right
from web.listing import BadPlace, place_of, read_page
from web.pages import small_body
from web.permissions import conversation_for, person_of
from web.services import Services
from web.zones import zone_of


class Rename(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a rename."""

    title: Annotated[str, Meta(min_length=1, max_length=200)]


class Switch(msgspec.Struct, forbid_unknown_fields=True):
    """The body of what can be so or not: pinned, archived."""

    on: bool


class Share(msgspec.Struct, forbid_unknown_fields=True):
    """The body of sharing: what the rest of the house may do."""

    shared: Literal["read", "write"] | None


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
        services.people,
        person_of(request),
        zone_of(request),
        archived="archived" in asked,
        before=before,
        until=until,
    )
    return HTMLResponse(await run_in_threadpool(services.presenter(request).conversations, page, None))


async def rename(request: Request) -> Response:
    """Give a conversation another title."""
    services: Services = request.state.services
    conversation = await conversation_for(request, Right.OWN)
    try:
        body = msgspec.json.decode(await small_body(request), type=Rename)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise HTTPException(400, "A title of 1 to 200 characters is needed.") from None
    rename, title = services.conversations.rename, body.title.strip()
    await services.announce_conversations(await run_in_threadpool(rename, conversation.id, title))
    return Response(status_code=204)


async def pin(request: Request) -> Response:
    """Put a conversation before all others, or back."""
    services: Services = request.state.services
    conversation = await conversation_for(request, Right.OWN)
    switch, pin = await _switch(request), services.listing.pin
    await services.announce_conversations(await run_in_threadpool(pin, conversation.id, switch.on))
    return Response(status_code=204)


async def archive(request: Request) -> Response:
    """Put a conversation out of the list, or back."""
    services: Services = request.state.services
    conversation = await conversation_for(request, Right.OWN)
    switch, archive = await _switch(request), services.listing.archive
    await services.announce_conversations(await run_in_threadpool(archive, conversation.id, switch.on))
    return Response(status_code=204)


async def delete(request: Request) -> Response:
    """Delete a conversation so that it can be brought back for a minute; its running replies are stopped."""
    services: Services = request.state.services
    try:
        conversation = await conversation_for(request, Right.OWN, even_deleted=True)
        async with services.order.of(conversation.id):
            for running in services.generations.in_conversation(conversation.id):
                services.generations.stop(running.reply_id)
            await run_in_threadpool(services.listing.delete, conversation.id)
            services.announce_deleted(conversation.id, deleted=True)
    except NotFound:  # gone already: what was asked for is so
        return Response(status_code=204)
    services.trash.empty_later()
    await services.announce_conversations(conversation)
    return Response(status_code=204)


async def restore(request: Request) -> Response:
    """Bring a conversation back that was deleted."""
    services: Services = request.state.services
    conversation = await conversation_for(request, Right.OWN, even_deleted=True)
    async with services.order.of(conversation.id):
        await run_in_threadpool(services.listing.restore, conversation.id)
        services.announce_deleted(conversation.id, deleted=False)
    await services.announce_conversations(conversation)
    return Response(status_code=204)


async def share(request: Request) -> Response:
    """Let the house read a conversation, or write in it; or nobody else. Who looks at it and no longer may
    is told so.
    """
    services: Services = request.state.services
    conversation = await conversation_for(request, Right.OWN)
    try:
        shared = msgspec.json.decode(await small_body(request), type=Share).shared
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise HTTPException(400, "Whether others may read, write or neither is needed.") from None
    async with services.order.of(conversation.id):
        conversation = await run_in_threadpool(services.listing.share, conversation.id, shared)
        await announce_right(services, conversation)
    return Response(status_code=204)


async def _switch(request: Request) -> Switch:
    try:
        return msgspec.json.decode(await small_body(request), type=Switch)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise HTTPException(400, "Whether it is to be on or off is needed.") from None
