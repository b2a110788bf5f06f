"""Making, changing and deleting presets, over HTTP.

Ids are made by the client, so that a repeat does no harm.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from web.commands import Id
from web.opening import MAX_SYSTEM_PROMPT
from web.preferences import read_body
from web.protocol import PresetList
from web.services import Services
from web.settings_view import choice_of

MAX_PRESETS = 50


class PresetBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A preset as somebody wants it."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]
    text: Annotated[str, Meta(min_length=1, max_length=MAX_SYSTEM_PROMPT)]
    shared: bool


async def save(request: Request) -> Response:
    """Make a preset, or change the one with that id."""
    services: Services = request.state.services
    try:
        preset_id = msgspec.convert(request.path_params["id"], Id)
    except msgspec.ValidationError:
        raise HTTPException(400, "A preset's id has letters, digits, - and _ only.") from None
    asked = await read_body(request, PresetBody)
    known = await services.new_chats.presets()
    if len(known) >= MAX_PRESETS and not any(preset.id == preset_id for preset in known):
        raise HTTPException(409, f"There are {len(known)} presets already; delete one first.")
    await run_in_threadpool(services.presets.save, preset_id, asked.name.strip(), asked.text, asked.shared)
    await _changed(services)
    return Response(status_code=204)


async def delete(request: Request) -> Response:
    """Delete a preset. Chats that began with it keep its text."""
    services: Services = request.state.services
    await run_in_threadpool(services.presets.delete, request.path_params["id"])
    await _changed(services)
    return Response(status_code=204)


async def _changed(services: Services) -> None:
    await services.new_chats.share()
    opening = await services.new_chats.opening()
    choice = choice_of(
        await services.new_chats.presets(), services.new_chats.own_prompt, opening.system_prompt
    )
    html = await run_in_threadpool(services.presenter.presets, choice)
    services.hub.broadcast(PresetList(html))
