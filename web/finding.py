"""Search, by GET: a page that needs no script, and quick results for the sidebar."""

from __future__ import annotations

from datetime import date, tzinfo
from itertools import groupby
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from storage.errors import TooShort
from storage.excerpts import excerpt, marked
from storage.search import Asked, Found, Hit
from web.found_view import FoundConversation, FoundMessage, FoundView, SearchPage
from web.permissions import person_of
from web.services import Services
from web.zones import day_begins, day_ends, day_of, zone_of

RESULTS = 30
QUICK = 12
MAX_QUERY = 200
"""Characters of a query that are looked at."""


async def page(request: Request) -> Response:
    """The search form with what it asks for, and a page of results."""
    services: Services = request.state.services
    query, problem, view = request.query_params, None, None
    try:
        view = await _find(request, RESULTS)
    except TooShort as error:
        problem = str(error)
    models = await run_in_threadpool(services.search.models)
    shown = SearchPage(
        query=query.get("q", "")[:MAX_QUERY],
        model=query.get("model", ""),
        since=query.get("from", ""),
        until=query.get("to", ""),
        models=models,
        found=view,
        problem=problem,
    )
    return HTMLResponse(await run_in_threadpool(services.presenter(request).search, shown))


async def quick(request: Request) -> Response:
    """A few results without a page around them."""
    services: Services = request.state.services
    presenter = services.presenter(request)
    try:
        view = await _find(request, QUICK)
    except TooShort as error:
        view = FoundView((), None, problem=str(error))
    return HTMLResponse(await run_in_threadpool(presenter.found, view or FoundView((), None)))


async def _find(request: Request, limit: int) -> FoundView | None:
    """None where nothing is asked for. Raises `TooShort`."""
    services: Services = request.state.services
    query, zone = request.query_params, zone_of(request)
    asked = _asked(query, zone, person_of(request))
    if not asked.query.strip():
        return None
    before = _number(query.get("before"))
    found = await run_in_threadpool(services.search.find, asked, limit, before)
    return await run_in_threadpool(_view, found, query, zone)


def _asked(query: QueryParams, zone: tzinfo | None, person: str) -> Asked:
    since, until = (_day(query.get(name)) for name in ("from", "to"))
    try:
        return Asked(
            query.get("q", "")[:MAX_QUERY],
            model=query.get("model") or None,
            since=day_begins(since, zone) if since else None,
            until=day_ends(until, zone) if until else None,
            person=person,
        )
    except OverflowError:
        raise HTTPException(400, "That day is out of reach.") from None


def _day(words: str | None) -> date | None:
    try:
        return date.fromisoformat(words) if words else None
    except ValueError:
        raise HTTPException(400, "A day is written as 2026-11-29.") from None


def _number(words: str | None) -> int | None:
    if words is None:
        return None
    try:
        return max(-(2**62), min(2**62, int(words[:20])))
    except ValueError:
        raise HTTPException(400, "That page of results is not known.") from None


def _view(found: Found, query: QueryParams, zone: tzinfo | None) -> FoundView:
    """The hits under their conversations; neighbours of one conversation stand under one heading."""
    groups = []
    for _, neighbours in groupby(found.hits, key=lambda hit: hit.conversation_id):
        hits = list(neighbours)
        first = hits[0]
        messages = [_message(hit, found, query, zone) for hit in hits if hit.message_id]
        groups.append(
            FoundConversation(
                url=f"/c/{first.conversation_id}",
                title=marked(first.title, found.terms),
                archived=first.archived,
                day=day_of(first.created_at, zone),
                messages=messages,
            )
        )
    kept = {name: query[name] for name in ("q", "model", "from", "to") if query.get(name)}
    more = f"/search?{urlencode({**kept, 'before': found.before})}" if found.before is not None else None
    return FoundView(groups, more, all_url=f"/search?{urlencode(kept)}")


def _message(hit: Hit, found: Found, query: QueryParams, zone: tzinfo | None) -> FoundMessage:
    words = quote(query.get("q", "")[:MAX_QUERY])
    return FoundMessage(
        url=f"/c/{hit.conversation_id}?at={hit.message_id}&find={words}#m{hit.message_id}",
        mine=hit.role == "user",
        pieces=excerpt(hit.text, found.terms),
        day=day_of(hit.created_at, zone),
    )
