"""What people see and change of themselves on a shared server: their name, their devices, their password."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from storage.conversations import utc_now
from storage.errors import NotFound
from storage.records import OWNER, DeviceRecord, PersonRecord
from web.device_list import asked_name, device_view, sharing_of
from web.pages import refusal_of, small_body
from web.pairing import Invited
from web.passwords import LONGEST, SHORTEST, derive, matches
from web.services import Services
from web.session_checks import over, renewed
from web.sessions import device_of
from web.sharing import Sharing
from web.views import AccountView

WRONG = "That is not your present password."


class NewPassword(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a change: null for no password from now on. `current` is the one until now."""

    password: Annotated[str, Meta(min_length=SHORTEST, max_length=LONGEST)] | None
    current: Annotated[str, Meta(max_length=LONGEST)] = ""


async def page(request: Request) -> Response:
    """The page about oneself."""
    services: Services = request.state.services
    sharing, device, person = await _self(request)
    found = await run_in_threadpool(sharing.sessions.devices.list_valid)
    view = AccountView(
        name=person.name,
        is_owner=person.id == OWNER,
        has_password=person.password is not None,
        devices=[device_view(request, each, device) for each in found if each.person_id == person.id],
        shortest=SHORTEST,
        longest=LONGEST,
        now=utc_now(),
    )
    return HTMLResponse(await run_in_threadpool(services.presenter(request).account, view))


async def rename(request: Request) -> Response:
    """Be called something else."""
    services: Services = request.state.services
    _, _, person = await _self(request)
    await run_in_threadpool(services.people.rename, person.id, await asked_name(request))
    await services.announce_conversations()
    return Response(status_code=204)


async def password(request: Request) -> Response:
    """Choose a password, or have none. All other sessions of the person end, and this one gets a new id."""
    services: Services = request.state.services
    sharing, device, person = await _self(request)
    asked = await _new_password(request)
    refusal = await _judge(request, sharing, person, asked)
    if refusal is not None:
        return refusal
    kept = None if asked.password is None else await run_in_threadpool(derive, asked.password)
    await run_in_threadpool(services.people.set_password, person.id, kept)
    response = Response(status_code=204)
    now = await sharing.sessions.begin(request, response, Invited(person.id))
    for ended in await run_in_threadpool(sharing.sessions.devices.revoke_others, person.id, now.id):
        services.hub.end(ended, over())
    services.hub.end(device.id, renewed())
    return response


async def disconnect(request: Request) -> Response:
    """End the session of one of one's own devices, this one included, and close its sockets."""
    services: Services = request.state.services
    sharing, device, person = await _self(request)
    devices = sharing.sessions.devices
    own = [each.id for each in await run_in_threadpool(devices.list_valid) if each.person_id == person.id]
    device_id = request.path_params["id"]
    if device_id not in own:
        raise NotFound(f"There is no device {device_id}.")
    await run_in_threadpool(devices.revoke, device_id)
    services.hub.end(device_id, over())
    response = Response(status_code=204)
    if device_id == device.id:
        sharing.sessions.forget(response)
    return response


async def _self(request: Request) -> tuple[Sharing, DeviceRecord, PersonRecord]:
    services: Services = request.state.services
    sharing, device = sharing_of(request), device_of(request)
    assert device is not None, "the guard lets nobody else in"
    return sharing, device, await run_in_threadpool(services.people.get, device.person_id)


async def _new_password(request: Request) -> NewPassword:
    try:
        asked = msgspec.json.decode(await small_body(request), type=NewPassword)
        msgspec.json.encode(asked)  # refuses half of a surrogate pair
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise HTTPException(400, f"A password has {SHORTEST} to {LONGEST} characters.") from None
    return asked


async def _judge(
    request: Request, sharing: Sharing, person: PersonRecord, asked: NewPassword
) -> Response | None:
    """Why the change is refused. The owner, whom the terminal lets in anyway, need not know the old one."""
    if asked.password is not None and not person.name:
        return refusal_of(request, 409, "Give yourself a name first: one signs in with both.")
    if person.password is None or person.id == OWNER:
        return None
    waiting = sharing.attempts.refusal(person.id)
    if waiting is not None:
        return refusal_of(request, 429, waiting.sentence, waiting.headers)
    # A failure until it is known: that takes a while, and further guesses may come meanwhile.
    sharing.attempts.failed(person.id)
    if await run_in_threadpool(matches, asked.current, person.password):
        sharing.attempts.succeeded(person.id)
        return None
    sharing.attempts.restart(person.id)
    return refusal_of(request, 403, WRONG)
