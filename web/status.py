"""The page `/status`: what memory holds, what runs, how fast, and what was reused. It needs no script; with
one, the changing part is fetched again every two seconds while somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from inference.tally import RunningReply
from storage.access import Access, Right
from storage.errors import NotFound
from web.permissions import person_of
from web.services import Services
from web.status_view import ChatLine, StatusView, memory_view, plots_of


async def page(request: Request) -> Response:
    """The whole page."""
    services: Services = request.state.services
    view = await _view(request)
    return HTMLResponse(await run_in_threadpool(services.presenter(request).status, view))


async def now(request: Request) -> Response:
    """The changing part alone."""
    services: Services = request.state.services
    view = await _view(request)
    return HTMLResponse(await run_in_threadpool(services.presenter(request).status_now, view))


async def _view(request: Request) -> StatusView:
    services: Services = request.state.services
    telemetry = services.telemetry
    engine = telemetry.snapshot()
    return StatusView(
        status=services.status_frame(services.languages.of(request)),
        engine=engine,
        memory=memory_view(engine, engine.model, engine.plan) if engine.model and engine.plan else None,
        chats=await run_in_threadpool(_chats, services.access, person_of(request), engine.running),
        plots=plots_of(telemetry.history()),
        just_now=telemetry.just_now(),
        lately=telemetry.lately(),
        stored=await telemetry.stored(),
    )


def _chats(access: Access, person: str, running: Sequence[RunningReply]) -> list[ChatLine]:
    """Those of others are there too, without their titles."""
    lines = []
    for reply in running:
        try:
            title = access.conversation(person, reply.owner, Right.READ).title
        except NotFound:
            title = None
        lines.append(ChatLine(reply, title))
    return lines
