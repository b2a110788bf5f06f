"""The page that shows two branches side by side. Over HTTP; it changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from storage.access import Right
from storage.errors import NotFound
from storage.records import MessageRecord
from web.differences import Stretch, differences
from web.permissions import person_of
from web.record import params_in_words
from web.review_views import CellView, CompareView, SideView, TokensView
from web.services import Services
from web.versions import common_tokens

MAX_MESSAGES = 100
"""Of each branch, from where they part."""

MAX_COMPARED = 100_000
"""Characters after which no longer words are marked, but lines."""


async def page(request: Request) -> Response:
    """Two versions of one message, and what follows each."""
    services: Services = request.state.services
    query, person = request.query_params, person_of(request)
    message_id = query.get("one", request.path_params["id"])
    message = await run_in_threadpool(services.access.message, person, message_id, Right.READ)
    view = await run_in_threadpool(_compare_view, services, message, query.get("with"))
    return HTMLResponse(await run_in_threadpool(services.presenter(request).compare, view))


def _compare_view(services: Services, message: MessageRecord, other_id: str | None) -> CompareView:
    versions = _versions(services, message)
    if len(versions) < 2:
        raise NotFound("There is only one version of this message.")
    if other_id is None:
        place = versions.index(message.id)
        other_id = versions[place - 1] if place else versions[1]
    if other_id not in versions:
        raise NotFound(f"There is no version {other_id} of this message.")
    left, right = sorted((message.id, other_id), key=versions.index)
    conversation = services.conversations.get(message.conversation_id)
    branches = [_following(services, each) for each in (left, right)]
    first, second = (branch[0] for branch in branches)
    return CompareView(
        conversation_id=conversation.id,
        title=conversation.title,
        left=SideView(first.id, versions.index(first.id) + 1, first.model),
        right=SideView(second.id, versions.index(second.id) + 1, second.model),
        versions=versions,
        question=_question(services, first),
        rows=_rows(*(branch[:MAX_MESSAGES] for branch in branches)),
        tokens=_tokens(first, second),
        settings=_settings(first, second),
        longer=any(len(branch) > MAX_MESSAGES for branch in branches),
    )


def _versions(services: Services, message: MessageRecord) -> list[str]:
    """The ids of all messages with the same parent, oldest first."""
    siblings = services.branches.siblings(message.conversation_id)
    first = message.id
    while first in siblings and (before := siblings[first].previous_id) is not None:
        first = before
    versions = [first]
    while versions[-1] in siblings and (after := siblings[versions[-1]].next_id) is not None:
        versions.append(after)
    return versions


def _following(services: Services, message_id: str) -> list[MessageRecord]:
    """A message and its branch after it, where that was last worked on."""
    branch = services.branches.newest_after(message_id)
    start = next(place for place, message in enumerate(branch) if message.id == message_id)
    return branch[start:]


def _question(services: Services, reply: MessageRecord) -> str | None:
    if reply.role == "user" or reply.parent_id is None:
        return None
    return services.conversations.message(reply.parent_id).text


def _rows(
    left: Sequence[MessageRecord], right: Sequence[MessageRecord]
) -> list[tuple[CellView | None, CellView | None]]:
    rows: list[tuple[CellView | None, CellView | None]] = []
    compared = 0
    for one, other in zip_longest(left, right):
        if one is not None and other is not None:
            stretches = differences(one.text, other.text, words=compared < MAX_COMPARED)
            compared += len(one.text) + len(other.text)
            rows.append((_cell(one, stretches[0]), _cell(other, stretches[1])))
        else:
            only = one or other
            cell = _cell(only, [Stretch(only.text, True)]) if only is not None else None
            rows.append((cell, None) if one is not None else (None, cell))
    return rows


def _cell(message: MessageRecord, stretches: Sequence[Stretch]) -> CellView:
    return CellView(message.role, stretches, message.finish_reason in ("length", "abort", "error"))


def _tokens(one: MessageRecord, other: MessageRecord) -> TokensView | None:
    if not one.token_ids or not other.token_ids or one.model != other.model:
        return None
    same = common_tokens(one.token_ids, other.token_ids)
    return TokensView(same, len(one.token_ids), len(other.token_ids))


def _settings(one: MessageRecord, other: MessageRecord) -> list[tuple[str, str, str]]:
    if one.role == "user":
        return []
    left, right = (params_in_words(message.params or {}) for message in (one, other))
    names = list(dict.fromkeys([*left, *right]))
    return [
        (name, left.get(name, ""), right.get(name, ""))
        for name in names
        if left.get(name, "") != right.get(name, "")
    ]
