"""Exporting and importing over HTTP: the page, downloads, uploads, and how an import goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Literal

import msgspec
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response

from storage.access import Right
from storage.errors import ImportRefused, NotFound
from storage.transfer.limits import MAX_FILE_BYTES
from storage.transfer.schema import ExportedConversation, document
from web.downloads import Download, zipped
from web.file_names import file_name, name_for_all
from web.imports import ImportJob, too_large
from web.language import Language
from web.letters import letter, markdown
from web.permissions import conversation_for, person_of
from web.services import Services

MOST_AT_ONCE = 500
BUSY = "Another file is being imported. Wait until it is done, or cancel that."


class ItemFrame(Struct, frozen=True):
    """What became of one conversation, in a person's words. `number` counts from 1."""

    number: int
    title: str
    outcome: str
    why: str | None
    conversation_id: str | None


class JobFrame(Struct, frozen=True):
    """How an import goes: `done` of `total` (null while it is counted), and further `items`."""

    id: str
    state: Literal["running", "done", "cancelled", "failed"]
    done: int
    total: int | None
    why: str | None
    items: list[ItemFrame]


async def page(request: Request) -> Response:
    """The page to export and import on."""
    services: Services = request.state.services
    job = services.imports.job
    job_id = job.id if job is not None and job.person == person_of(request) else None
    html = await run_in_threadpool(services.presenter(request).transfer, MAX_FILE_BYTES, job_id)
    return HTMLResponse(html)


async def printed(request: Request) -> Response:
    """A conversation as a letter."""
    services: Services = request.state.services
    record = await conversation_for(request, Right.READ)
    conversation = await run_in_threadpool(services.exports.conversation, record.id)
    presenter = services.presenter(request)
    html = await run_in_threadpool(lambda: presenter.letter(letter(conversation, presenter.language)))
    return HTMLResponse(html)


async def export_one(request: Request) -> Response:
    """One conversation as a file."""
    services: Services = request.state.services
    record = await conversation_for(request, Right.READ)
    conversation = await run_in_threadpool(services.exports.conversation, record.id)
    if _wants_markdown(request):
        pieces = markdown_bytes(conversation, services.languages.of(request))
        return Download(pieces, file_name(conversation, ".md"), "text/markdown; charset=utf-8")
    return Download(document([conversation]), file_name(conversation, ".json"), "application/json")


async def export_all(request: Request) -> Response:
    """All conversations of whoever asks: one JSON file, or a .zip of Markdown files."""
    services: Services = request.state.services
    today, everything = date.today(), services.exports.everything(person_of(request))
    if _wants_markdown(request):
        files = markdown_files(everything, services.languages.of(request))
        return Download(zipped(files), name_for_all(today, ".zip"), "application/zip")
    return Download(document(everything), name_for_all(today, ".json"), "application/json")


async def upload(request: Request) -> Response:
    """Take a file in, the body as it is, and begin to import it."""
    services: Services = request.state.services
    if services.imports.is_busy:
        raise HTTPException(409, BUSY)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > MAX_FILE_BYTES:
        raise HTTPException(413, too_large(int(length[:20])))
    try:
        job = await services.imports.take(request.stream(), person_of(request))
    except ImportRefused as error:
        raise HTTPException(400, str(error)) from None
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    return _answer(services, request, job, after=0, status=202)


async def progress(request: Request) -> Response:
    """How an import goes, from its conversation number `after` on."""
    services: Services = request.state.services
    after = request.query_params.get("after", "0")
    first = int(after[:9]) if after.isdecimal() else 0
    return _answer(services, request, _job(services, request), after=first)


async def cancel(request: Request) -> Response:
    """End an import; what it has taken stays."""
    services: Services = request.state.services
    services.imports.cancel(_job(services, request))
    return Response(status_code=204)


def markdown_bytes(conversation: ExportedConversation, language: Language) -> Iterator[bytes]:
    """A conversation as a Markdown file, in pieces."""
    return (piece.encode() for piece in markdown(letter(conversation, language), language))


def markdown_files(
    conversations: Iterator[ExportedConversation], language: Language
) -> Iterator[tuple[str, bytes]]:
    """Every conversation as a Markdown file with its name."""
    for conversation in conversations:
        yield file_name(conversation, ".md"), b"".join(markdown_bytes(conversation, language))


def _wants_markdown(request: Request) -> bool:
    wanted = request.query_params.get("format", "json")
    if wanted not in ("json", "markdown"):
        raise HTTPException(400, "The format is json or markdown.")
    return wanted == "markdown"


def _job(services: Services, request: Request) -> ImportJob:
    job = services.imports.job
    if job is None or (job.id, job.person) != (request.path_params["id"], person_of(request)):
        raise NotFound("There is no such import.")
    return job


def _answer(
    services: Services, request: Request, job: ImportJob, *, after: int, status: int = 200
) -> Response:
    language = services.languages.of(request)
    state, done = job.state, len(job.items)
    items = [
        ItemFrame(
            number, item.title, item.outcome, item.why and language.sentence(item.why), item.conversation_id
        )
        for number, item in enumerate(job.items[after : after + MOST_AT_ONCE], start=after + 1)
    ]
    why = language.sentence(job.why) if job.why else None
    body = msgspec.json.encode(JobFrame(job.id, state, done, job.total, why, items))
    return Response(body, status, media_type="application/json")
