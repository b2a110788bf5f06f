"""The owner's list of devices: who is connected, what they are called, and ending a session."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from storage.conversations import utc_now
from storage.devices import MAX_DEVICES
from storage.records import OWNER, DeviceRecord
from web.pages import small_body
from web.services import Services
from web.session_checks import over
from web.sessions import device_of
from web.sharing import Sharing
from web.views import DeviceListView, DeviceView, PersonView
from web.zones import zone_of

OWN_BROWSER = "This is the browser that you use just now: disconnect it from another one of yours."


class Rename(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a rename, of a device or of a person."""

    name: Annotated[str, Meta(min_length=1, max_length=80)]


async def piece(request: Request) -> Response:
    """The list as it is now."""
    sharing, device = owner_of(request)
    return await _answer(request, sharing, device)


async def rename(request: Request) -> Response:
    """Give a device another name."""
    sharing, device = owner_of(request)
    name = await asked_name(request)
    await run_in_threadpool(sharing.sessions.devices.rename, request.path_params["id"], name)
    return await _answer(request, sharing, device)


async def rename_person(request: Request) -> Response:
    """Give a person another name."""
    services: Services = request.state.services
    sharing, device = owner_of(request)
    name = await asked_name(request)
    await run_in_threadpool(services.people.rename, request.path_params["id"], name)
    await services.announce_conversations()
    return await _answer(request, sharing, device)


async def remove_password(request: Request) -> Response:
    """For somebody who has forgotten theirs: they come in with a code, and choose another."""
    services: Services = request.state.services
    sharing, device = owner_of(request)
    await run_in_threadpool(services.people.set_password, request.path_params["id"], None)
    return await _answer(request, sharing, device)


async def disconnect(request: Request) -> Response:
    """End a device's session and close its sockets. For one whose session is over it changes nothing."""
    services: Services = request.state.services
    sharing, device = owner_of(request)
    device_id = request.path_params["id"]
    if device_id == device.id:
        raise HTTPException(409, OWN_BROWSER)
    await run_in_threadpool(sharing.sessions.devices.revoke, device_id)
    services.hub.end(device_id, over())
    return await _answer(request, sharing, device)


async def list_of(request: Request, sharing: Sharing, own: DeviceRecord) -> DeviceListView:
    """What the list shows to the owner who looks, in the browser `own`."""
    services: Services = request.state.services
    found = await run_in_threadpool(sharing.sessions.devices.list_valid)
    devices: dict[str, list[DeviceView]] = {}
    for device in found:
        devices.setdefault(device.person_id, []).append(device_view(request, device, own))
    everybody = [
        PersonView(
            id=person.id,
            name=person.name,
            is_owner=person.id == OWNER,
            devices=devices.get(person.id, ()),
            has_password=person.password is not None,
        )
        for person in await run_in_threadpool(services.people.list_all)
    ]
    return DeviceListView(everybody, len(found), MAX_DEVICES, utc_now())


def device_view(request: Request, device: DeviceRecord, own: DeviceRecord) -> DeviceView:
    """A device as it is listed in the browser `own`."""
    services: Services = request.state.services
    zone = zone_of(request)
    return DeviceView(
        id=device.id,
        name=device.name,
        is_own=device.id == own.id,
        is_here=device.id in services.hub.devices(),
        connected=device.created_at.astimezone(zone),
        last_seen=device.last_seen_at.astimezone(zone),
    )


async def asked_name(request: Request) -> str:
    """The name in the body of a rename. Raises `HTTPException` for none."""
    try:
        name = msgspec.json.decode(await small_body(request), type=Rename).name.strip()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        name = ""
    if not name.isprintable() or not name:
        raise HTTPException(400, "A name of 1 to 80 characters is needed.")
    return name


def owner_of(request: Request) -> tuple[Sharing, DeviceRecord]:
    """The sharing, and the owner's device that asks. Raises `HTTPException` for everybody else."""
    sharing = sharing_of(request)
    device = device_of(request)
    if device is None or device.kind != "owner":
        raise HTTPException(403, "Only the owner connects devices.")
    return sharing, device


def sharing_of(request: Request) -> Sharing:
    """What a shared server has beside others. Raises `HTTPException` where it is none."""
    services: Services = request.state.services
    if services.sharing is None:
        raise HTTPException(404, "This server is not shared on the network.")
    return services.sharing


async def _answer(request: Request, sharing: Sharing, own: DeviceRecord) -> Response:
    services: Services = request.state.services
    view = await list_of(request, sharing, own)
    return HTMLResponse(await run_in_threadpool(services.presenter(request).devices, view))
