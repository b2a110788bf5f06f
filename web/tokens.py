"""The page `/tokens`: a text in, its tokens out, by a form alone or live with a script.

What is written comes by POST, although nothing changes: an address would keep it in the browser's history.
Models are chosen by the names of the server's own list; no path comes from a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from inference.models.installed import InstalledTokenizer, installed_tokenizers
from web.pages import small_body
from web.services import Services
from web.token_table import (
    LIMITS,
    TokensPage,
    TokenTable,
    as_csv,
    token_table,
)

MAX_BODY_BYTES = 12 * 4 * LIMITS.characters
"""A form may write a character with twelve bytes; texts somewhat too long are still answered with numbers."""

MAX_FIELDS = 64
EXAMPLE = (
    "Shall we have kimchi stew at seven tonight?\n오늘 저녁 7시에 김치찌개 어때요?\nroom = floor + 1  # 🔥"
)
"""To be compared: the same in two languages, and some code."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a form holds. `models` are names; those that are not installed mean nothing."""

    text: str
    models: Sequence[str]


async def page(request: Request) -> Response:
    """The page with an example; after POST with what was written."""
    services: Services = request.state.services
    presenter = services.presenter(request)
    if request.method == "POST":
        asked = await _asked(request)
    else:
        asked = Asked(EXAMPLE, ())
    installed, chosen = await _models(services, asked)
    table = await _table(services, asked, chosen)
    view = TokensPage(asked.text, [(model.name, model in chosen) for model in installed], table)
    status = 200 if table.problem is None else 400
    return HTMLResponse(await run_in_threadpool(presenter.tokens, view), status)


async def rows(request: Request) -> Response:
    """The result alone, for the page's script."""
    services: Services = request.state.services
    asked = await _asked(request)
    _, chosen = await _models(services, asked)
    table = await _table(services, asked, chosen)
    return HTMLResponse(await run_in_threadpool(services.presenter(request).token_rows, table))


async def file(request: Request) -> Response:
    """The result as CSV."""
    services: Services = request.state.services
    asked = await _asked(request)
    _, chosen = await _models(services, asked)
    table = await _table(services, asked, chosen)
    if table.problem is not None:
        raise HTTPException(400, table.problem)
    body = await run_in_threadpool(as_csv, table, services.languages.of(request))
    name = {"Content-Disposition": 'attachment; filename="tokens.csv"'}
    return Response(body, media_type="text/csv; charset=utf-8", headers=name)


async def _asked(request: Request) -> Asked:
    body = await small_body(request, MAX_BODY_BYTES)
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise HTTPException(400, "A form with a text is needed.") from None
    text = fields.get("text", [""])[0].replace("\r\n", "\n").replace("\r", "\n")
    return Asked(text, fields.get("model", []))


async def _models(
    services: Services, asked: Asked
) -> tuple[list[InstalledTokenizer], list[InstalledTokenizer]]:
    """All that are installed, and those that were asked for: the first one where none was."""
    engine = services.engine
    loaded = engine.tokenizing.model if engine.tokenizing is not None else None
    installed = await run_in_threadpool(installed_tokenizers, engine.config.models_dir, loaded)
    chosen = [model for model in installed if model.name in asked.models]
    return installed, chosen or installed[:1]


async def _table(services: Services, asked: Asked, chosen: Sequence[InstalledTokenizer]) -> TokenTable:
    return await run_in_threadpool(token_table, asked.text, chosen, services.shelf)
