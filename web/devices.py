"""Letting devices in, over HTTP: the pairing page, what it posts, and the owner's sheet."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

import msgspec
from markupsafe import Markup
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from storage.errors import TooManyDevices
from storage.people import People
from storage.records import OWNER
from web.device_list import list_of, owner_of, sharing_of
from web.lan import qr_svg
from web.pages import refusal_of, small_body
from web.pairing import CODE_LIFE_S, Invited, Outcome
from web.passwords import LONGEST, matches, nobodys
from web.protocol import DeviceConnected
from web.services import Services
from web.session_checks import end_if_over, renewed
from web.sessions import device_of
from web.sharing import Sharing, pairing_url
from web.views import InvitationView

REFUSALS = {
    Outcome.WRONG: "That is not a code of this server. Compare the eight digits.",
    Outcome.EXPIRED: "That code has expired: each is good for two minutes. Ask for a new one.",
    Outcome.USED: "That code was already used: each connects one device. Ask for a new one.",
}
NOT_THE_PASSWORD = "That name and that password do not belong together."
NOT_THE_OWNER = "That owner’s link is no longer good. The terminal that Ondol runs in shows the present one."

BODY_TIMEOUT_S = 5.0
"""Whoever is not let in yet may not keep a request open for long."""

Secret = Annotated[str, Meta(min_length=1, max_length=64)]


class Invite(msgspec.Struct, forbid_unknown_fields=True):
    """For whom a code is to be: a person, or somebody new, with the name that the owner gives them."""

    person_id: Annotated[str, Meta(max_length=32)] | None = None
    name: Annotated[str, Meta(max_length=80)] = ""


class Pair(msgspec.Struct, forbid_unknown_fields=True):
    """What a browser has to show: a code, the owner's secret, or a person's name and password."""

    code: Secret | None = None
    owner: Secret | None = None
    name: Annotated[str, Meta(min_length=1, max_length=80)] | None = None
    password: Annotated[str, Meta(min_length=1, max_length=LONGEST)] | None = None


async def pairing_page(request: Request) -> Response:
    """What a device sees that was not let in."""
    services: Services = request.state.services
    if request.method in ("GET", "HEAD"):
        encrypted = sharing_of(request).tls is not None
        by_password = await run_in_threadpool(services.people.have_passwords)
        page = partial(services.presenter(request).pairing, encrypted=encrypted, by_password=by_password)
        return HTMLResponse(await run_in_threadpool(page), 401)
    return refusal_of(request, 401, "This device is not connected.")


async def connected(request: Request) -> Response:
    """Whether this browser is let in already. A link on another site comes without its cookie."""
    services: Services = request.state.services
    return JSONResponse({"connected": services.sharing is None or device_of(request) is not None})


async def pair(request: Request) -> Response:
    """A code or the owner's secret for a session cookie."""
    services: Services = request.state.services
    sharing = sharing_of(request)
    asked = await _decode(request)
    address = request.client.host if request.client else ""
    waiting = sharing.attempts.refusal(address)
    if waiting is not None:
        return refusal_of(request, 429, waiting.sentence, waiting.headers)
    # A failure until it is known: a password takes a while, and further guesses may come meanwhile.
    sharing.attempts.failed(address)
    judged = await _judge(services.people, sharing, asked)
    if isinstance(judged, str):
        sharing.attempts.restart(address)
        return refusal_of(request, 403, judged)
    sharing.attempts.succeeded(address)
    response = Response(status_code=204)
    before = device_of(request)
    try:
        device = await sharing.sessions.begin(request, response, judged)
    except TooManyDevices as error:
        return refusal_of(request, 409, str(error))
    if before is not None:
        services.hub.end(before.id, renewed())
    if device.kind == "owner":  # for whom another device may have had to go
        for device_id in services.hub.devices():
            await end_if_over(sharing.sessions, services.hub, device_id)
    services.hub.broadcast(DeviceConnected(device.name), to=services.hub.of(OWNER))
    return response


async def invite(request: Request) -> Response:
    """A new code and where to use it, for the owner's sheet."""
    services: Services = request.state.services
    sharing, device = owner_of(request)
    whose = await _whose(request)
    addresses = sharing.addresses(first=request.url.hostname or "")
    code = sharing.codes.issue(whose)
    view = InvitationView(
        addresses=addresses,
        code=code,
        life_s=CODE_LIFE_S,
        qr_svg=Markup(qr_svg(pairing_url(addresses[0], code)) if addresses else ""),
        person_id=whose.person_id,
        new_name=whose.name,
        listed=await list_of(request, sharing, device),
        fingerprint=sharing.tls.fingerprint if sharing.tls else None,
    )
    return HTMLResponse(await run_in_threadpool(services.presenter(request).invitation, view))


async def _whose(request: Request) -> Invited:
    services: Services = request.state.services
    try:
        body = await small_body(request)
        asked = msgspec.json.decode(body, type=Invite) if body else Invite()
        asked.name.encode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise HTTPException(400, "For whom the device is to be was not understood.") from None
    if asked.person_id is not None:
        await run_in_threadpool(services.people.get, asked.person_id)
    name = asked.name.strip()
    if not name.isprintable():
        raise HTTPException(400, "A name of 1 to 80 characters is needed.")
    return Invited(asked.person_id, name)


async def _judge(people: People, sharing: Sharing, asked: Pair) -> Invited | str:
    """Whom it lets in, or the sentence that says why it does not."""
    if asked.name is not None:
        person = await run_in_threadpool(_signed_in, people, asked.name.strip(), asked.password or "")
        return Invited(person) if person else NOT_THE_PASSWORD
    if asked.owner is not None:
        return Invited(OWNER) if sharing.owner.matches(asked.owner) else NOT_THE_OWNER
    outcome = sharing.codes.redeem(asked.code or "")
    return REFUSALS[outcome] if isinstance(outcome, Outcome) else outcome


def _signed_in(people: People, name: str, password: str) -> str | None:
    """The id of the person who is called so and has that password. Takes as long for nobody."""
    found = people.with_password(name)
    right = [person.id for person in found if matches(password, person.password or nobodys())]
    if not found:
        matches(password, nobodys())
    return right[0] if right else None


async def _decode(request: Request) -> Pair:
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            asked = msgspec.json.decode(await small_body(request), type=Pair)
        msgspec.json.encode(asked)  # refuses half of a surrogate pair
    except TimeoutError:
        raise HTTPException(408, "The code did not arrive in time.") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise HTTPException(400, "A code of eight digits is needed.") from None
    ways = [asked.code is not None, asked.owner is not None, asked.name is not None]
    if sum(ways) != 1 or (asked.name is None) != (asked.password is None):
        raise HTTPException(400, "A code of eight digits is needed.")
    return asked
