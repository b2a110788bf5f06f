"""The page `/learn`: the glossary, illustrated by this machine."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from inference.kv_shape import KvShape
from web.glossary import glossary
from web.services import Services
from web.this_machine import Machine, facts


async def page(request: Request) -> Response:
    """Every term, with what is known of it here."""
    services: Services = request.state.services
    presenter, machine = services.presenter(request), await _machine(services)

    def render() -> str:
        return presenter.glossary(glossary(presenter.language, facts(presenter.language, machine)))

    return HTMLResponse(await run_in_threadpool(render))


async def _machine(services: Services) -> Machine:
    engine, seen = services.engine, services.telemetry.snapshot()
    prepared = engine.tokenizing.model if engine.tokenizing is not None else None
    shape = None
    if prepared is not None and seen.model is not None:
        shape = await run_in_threadpool(KvShape.of, prepared, seen.model)
    return Machine(
        engine=seen,
        prepared=prepared,
        shape=shape,
        lately=services.telemetry.lately(),
        stored=await services.telemetry.stored(),
    )
