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
from web.permissions import person_of
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
    person = person_of(request)
    own = [each for each in await services.new_chats.presets(person) if each.person == person]
    if len(own) >= MAX_PRESETS and not any(preset.id == preset_id for preset in own):
        raise HTTPException(409, f"There are {len(own)} presets already; delete one first.")
    save, name = services.presets.save, asked.name.strip()
    await run_in_threadpool(save, preset_id, name, asked.text, asked.shared, person)
    await _changed(services)
    return Response(status_code=204)


async def delete(request: Request) -> Response:
    """Delete a preset. Chats that began with it keep its text."""
    services: Services = request.state.services
    await run_in_threadpool(services.presets.delete, request.path_params["id"], person_of(request))
    await _changed(services)
    return Response(status_code=204)


async def _changed(services: Services) -> None:
    new_chats = services.new_chats
    await new_chats.share()
    for person in services.hub.people():
        opening, presets = await new_chats.opening(person), await new_chats.presets(person)
        choice = choice_of(presets, new_chats.own_prompt, opening.system_prompt, person)
        frames = await services.in_each_language(lambda p, shown=choice: PresetList(p.presets(shown)))  # type: ignore[misc]
        services.hub.broadcast(frames, to=services.hub.of(person))
