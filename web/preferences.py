"""The sheet of settings and what it changes, and pins. Over HTTP; every change is idempotent."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from inference.errors import InvalidParams
from storage.access import Right
from storage.records import OWNER, ConversationRecord, DefaultsRecord
from web.commands import Id
from web.opening import MAX_SYSTEM_PROMPT, Chosen, Opening
from web.pages import small_body
from web.permissions import conversation_for, message_for, person_of
from web.protocol import Pinned
from web.services import Services
from web.settings_view import (
    ModelDefaults,
    SettingsView,
    ThinkingView,
    choice_of,
    field_views,
    stop_view,
)

MAX_BODY_BYTES = 65_536

Body = TypeVar("Body", bound=msgspec.Struct)


class Defaults(Chosen, frozen=True, forbid_unknown_fields=True):
    """What a person's new chats begin with; `preset_id` null is the server's own system prompt."""

    preset_id: Id | None = None


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a pin."""

    pinned: bool


async def sheet(request: Request) -> Response:
    """The inside of the sheet, for a conversation or for a chat that has not begun."""
    services: Services = request.state.services
    person, conversation = person_of(request), None
    if "id" in request.path_params:
        conversation = await conversation_for(request, Right.READ)
        opening = Opening.of(conversation.system_prompt, conversation.choices)
    else:
        opening = await services.new_chats.opening(person)
    view = await _settings_view(services, opening, conversation, person)
    return HTMLResponse(await run_in_threadpool(services.presenter(request).settings, view))


async def preview(request: Request) -> Response:
    """What a chat that has not begun would begin with. Changes nothing."""
    services: Services = request.state.services
    opening = await read_body(request, Opening)
    choices = opening.choices
    person = person_of(request)
    system = await services.system_view(opening.system_prompt, choices.thinking, person)
    html = await run_in_threadpool(services.presenter(request).system, system)
    context = await services.prompts.context_before(opening, person)
    return JSONResponse({"system_html": html, "context": msgspec.to_builtins(context)})


async def choose(request: Request) -> Response:
    """Change what a conversation was given; the next reply follows it."""
    services: Services = request.state.services
    conversation = await conversation_for(request, Right.OWN)
    opening = await read_body(request, Opening)
    choices, save = opening.choices, services.preferences.choose
    async with services.order.of(conversation.id):
        conversation = await run_in_threadpool(save, conversation.id, opening.system_prompt, choices)
        await services.announce_settings(conversation)
    return Response(status_code=204)


async def keep_defaults(request: Request) -> Response:
    """Have new chats begin so."""
    services: Services = request.state.services
    asked = await read_body(request, Defaults)
    defaults = DefaultsRecord(asked.choices, asked.preset_id)
    person = person_of(request)
    if asked.preset_id is not None:
        await run_in_threadpool(services.presets.get, asked.preset_id, person)
    await run_in_threadpool(services.preferences.keep_defaults, defaults, person)
    return Response(status_code=204)


async def pin(request: Request) -> Response:
    """Pin a message, or unpin it."""
    services: Services = request.state.services
    message = await message_for(request, Right.WRITE)
    asked = await read_body(request, Pin)
    async with services.order.of(message.conversation_id):
        message = await run_in_threadpool(services.preferences.pin, message.id, asked.pinned)
        conversation = await run_in_threadpool(services.conversations.get, message.conversation_id)
        frame = Pinned(message.id, message.pinned, await services.prompts.context_of(conversation))
        services.hub.broadcast(frame, to=services.hub.watching(conversation.id))
    return Response(status_code=204)


async def invalid(request: Request, error: Exception) -> Response:
    """A value that is out of its range, and which one."""
    assert isinstance(error, InvalidParams)
    services: Services = request.state.services
    sentence = services.languages.of(request).sentence(str(error))
    return JSONResponse({"error": sentence, "field": error.name}, 400)


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The typed body; 400 with one sentence otherwise."""
    body = await small_body(request, MAX_BODY_BYTES)
    try:
        asked = msgspec.json.decode(body, type=kind)
        msgspec.json.encode(
            asked
        )  # refuses half of a surrogate pair, which can be neither tokenized nor stored
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "it is not valid"
        raise HTTPException(400, f"That was not understood: {reason}.") from None
    return asked


async def _settings_view(
    services: Services, opening: Opening, conversation: ConversationRecord | None, person: str
) -> SettingsView:
    tokenizing, new_chats = services.engine.tokenizing, services.new_chats
    model, thinking = None, None
    if tokenizing is not None:
        model = ModelDefaults(tokenizing.model.defaults, services.engine.window)
        if tokenizing.tokenizer.template.thinking_switch is not None:
            thinking = ThinkingView(opening.thinking, services.engine.config.thinking)
    choices = opening.choices
    return SettingsView(
        fields=field_views(choices, model),
        stop=stop_view(choices, model),
        thinking=thinking,
        presets=choice_of(
            await new_chats.presets(person), new_chats.own_prompt, opening.system_prompt, person
        ),
        system_prompt=opening.system_prompt,
        longest_prompt=MAX_SYSTEM_PROMPT,
        conversation_id=conversation.id if conversation else None,
        is_own=conversation is None or conversation.person_id == person,
        is_owner=person == OWNER,
    )
