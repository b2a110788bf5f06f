"""The HTTP side: pages, and the few changes that need no socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import metadata

import msgspec
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from inference.types import ModelPhase, WorkerState
from storage.access import Right
from storage.errors import NotFound, StorageError
from storage.records import ConversationRecord, DeviceRecord
from web.faults import log_fault
from web.language import msgid
from web.message_views import transcript_view
from web.opening import Opening
from web.permissions import conversation_for, person_of
from web.protocol import ContextView
from web.services import Services
from web.sessions import device_of
from web.settings_view import choice_of
from web.views import ChatPage, SharingView, TranscriptView
from web.zones import zone_of

EXAMPLES = (
    msgid("Explain in two sentences why the sky is blue."),
    msgid("Suggest three names for a small bakery."),
    msgid("Write a short, friendly note to a new neighbour."),
)
SICK = {
    WorkerState.RESTARTING: "The worker died and is being restarted.",
    WorkerState.HUNG: "The worker hangs and the server is about to end.",
    WorkerState.ENDED: "The worker has ended.",
}
MAX_BODY_BYTES = 4_096
VERSION = metadata.version("ondol")


async def new_chat(request: Request) -> Response:
    """The page of a chat that has not begun."""
    services: Services = request.state.services
    person = person_of(request)
    opening = await services.new_chats.opening(person)
    system = await services.system_view(opening.system_prompt, opening.thinking, person)
    context = await services.prompts.context_of(opening)
    return await _page(request, None, TranscriptView([], None, system), context, opening)


async def conversation(request: Request) -> Response:
    """The page of one conversation; `at` names a message to show, whichever branch it is in."""
    services: Services = request.state.services
    record = await conversation_for(request, Right.READ)
    at = request.query_params.get("at")
    leaf_id = await run_in_threadpool(services.branches.leaf_with, record.id, at) if at else None
    elsewhere = leaf_id not in (None, record.head_id)
    shown = await services.transcript(replace(record, head_id=leaf_id or record.head_id), at)
    jump = (at, elsewhere) if leaf_id else (None, False)
    return await _page(request, record, shown.view, shown.context, jump=jump)


async def earlier(request: Request) -> Response:
    """The messages of a branch before one of them (and after another), as a piece of the transcript."""
    services: Services = request.state.services
    record = await conversation_for(request, Right.READ)
    before = request.query_params.get("before") or "none"
    path = (await run_in_threadpool(services.conversations.path, record.id, before))[:-1]
    after = request.query_params.get("after", "")
    start = next((i + 1 for i, message in enumerate(path) if message.id == after), 0)
    siblings = await run_in_threadpool(services.branches.siblings, record.id)
    names = await run_in_threadpool(services.people.names)
    shown = partial(transcript_view, record, path[start:], None, None, siblings, names=names)
    view = await run_in_threadpool(shown)
    if start and view.earlier:
        view = replace(view, earlier=replace(view.earlier, url=f"{view.earlier.url}&after={after}"))
    html = await run_in_threadpool(
        services.presenter(request).transcript, replace(view, unanswered=False, origin=None)
    )
    return HTMLResponse(html)


async def health(request: Request) -> Response:
    """200 while the worker lives, 503 with a reason while it does not, or has no model.

    The first loading counts as healthy, since messages are taken and wait: whoever starts a sick server anew
    would never let a long download end.
    """
    engine = request.state.services.engine
    body = {"worker": engine.worker_state, "model": engine.status.phase}
    reason = SICK.get(engine.worker_state)
    if reason is None and engine.status.phase is ModelPhase.FAILED:
        reason = "The model could not be loaded; the page tells why."
    return JSONResponse(body if reason is None else body | {"reason": reason}, 503 if reason else 200)


async def offline(request: Request) -> Response:
    """The page that a browser keeps, to show it while this server cannot be reached."""
    services: Services = request.state.services
    return HTMLResponse(await run_in_threadpool(services.presenter(request).offline))


async def script_texts(request: Request) -> Response:
    """What scripts say in a language, for those that a page did not begin with."""
    services: Services = request.state.services
    code = request.path_params["code"]
    found = next((language for language in services.languages if language.code == code), None)
    if found is None:
        raise HTTPException(404)
    return Response(msgspec.json.encode(found.for_scripts), media_type="application/json")


async def not_found(request: Request, error: Exception) -> Response:
    """No such page or conversation: a page for people, a line for scripts."""
    message = str(error) if isinstance(error, NotFound) else "There is no such page."
    return _problem(request, 404, msgid("Not found"), message)


async def not_allowed(request: Request, error: Exception) -> Response:
    """What only somebody else may do."""
    return _problem(request, 403, msgid("Not possible"), str(error))


async def refused(request: Request, error: Exception) -> Response:
    """A request that cannot be carried out as it is."""
    assert isinstance(error, HTTPException)
    return _problem(request, error.status_code, msgid("Not possible"), error.detail)


async def storage_failed(request: Request, error: Exception) -> Response:
    """The database cannot be read or written."""
    assert isinstance(error, StorageError)
    title = msgid("The conversations cannot be reached")
    return _problem(request, 503, title, str(error), log_fault(error))


async def broke(request: Request, fault: str) -> Response:
    """What nobody expected; `fault` is its id in the log."""
    return _problem(request, 500, msgid("The server failed"), "The server failed while it did that.", fault)


def _problem(request: Request, status: int, title: str, message: str, fault: str | None = None) -> Response:
    if request.method in ("GET", "HEAD"):
        services: Services = request.state.services
        return HTMLResponse(services.presenter(request).error(title, message, fault), status)
    return refusal_of(request, status, message, fault=fault)


def refusal_of(
    request: Request,
    status: int,
    english: str,
    headers: Mapping[str, str] | None = None,
    fault: str | None = None,
) -> JSONResponse:
    """A line for scripts, whose sentence they may show. `fault` is what the log calls it."""
    services: Services = request.state.services
    body = {"error": services.languages.of(request).sentence(english)}
    return JSONResponse(body | ({"fault": fault} if fault else {}), status, headers)


async def _page(
    request: Request,
    record: ConversationRecord | None,
    transcript: TranscriptView,
    context: ContextView | None,
    opening: Opening | None = None,
    jump: tuple[str | None, bool] = (None, False),
) -> Response:
    services: Services = request.state.services
    presenter, person = services.presenter(request), person_of(request)
    presets = await services.new_chats.presets(person) if opening else ()
    page = ChatPage(
        conversation_id=record.id if record else None,
        title=record.title if record else None,
        transcript=transcript,
        conversations=await services.listed(person, zone_of(request)),
        status=services.status_frame(presenter.language),
        context=context,
        examples=EXAMPLES,
        version=VERSION,
        presets=choice_of(
            presets, services.new_chats.own_prompt, opening.system_prompt if opening else "", person
        ),
        opening=msgspec.json.encode(opening).decode() if opening else "",
        sharing=_sharing(services, device_of(request)),
        right=await run_in_threadpool(services.right_view, record, person) if record else None,
        at=jump[0],
        elsewhere=jump[1],
    )
    html = await run_in_threadpool(presenter.page, page)
    return HTMLResponse(html, background=BackgroundTask(services.engine.begin))


def _sharing(services: Services, device: DeviceRecord | None) -> SharingView | None:
    if services.sharing is None or device is None:
        return None
    return SharingView(
        services.sharing.addresses()[:1], device.kind == "owner", services.sharing.tls is not None
    )


async def small_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The body, refused as soon as it is longer than any of its kind."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(413, f"The body is longer than {limit:,} bytes.")
    return body
