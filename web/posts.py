"""What pages ask for outside the socket: texts too long for a frame, and the source of a message."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from storage.access import Right
from web.announcing import announce_begun
from web.commands import MAX_TEXT_BYTES, Count, decode_long
from web.errors import KNOWN_ERRORS, error_frame
from web.faults import log_fault
from web.hub import in_words_of
from web.permissions import message_for, permit, person_of
from web.protocol import Counted, ServerFrame, encode
from web.services import Services

MAX_BODY_BYTES = 6 * MAX_TEXT_BYTES + 4_096
"""JSON may write one byte of text with six."""


async def command(request: Request) -> Response:
    """Carry out a `send`, `edit` or `count` of any length; the frame that the socket would answer with."""
    services: Services = request.state.services
    language = services.languages.of(request)
    ref = None
    try:
        asked = decode_long(await _body(request))
        ref, person = asked.id, person_of(request)
        await permit(asked, person, services)
        frame: ServerFrame
        if isinstance(asked, Count):
            frame = Counted(asked.id, await services.turns.count(asked, person))
        else:
            async with services.order.of(asked.conversation_id):
                frames = await announce_begun(asked.id, await services.turns.begin(asked, person), services)
            frame = frames[language.code]
    except KNOWN_ERRORS as error:
        log_fault(error, ref)
        frame = in_words_of(language, error_frame(error, ref))
    return Response(encode(frame), media_type="application/json")


async def source(request: Request) -> Response:
    """The text of a message as it was written: markdown, for a reply."""
    return PlainTextResponse((await message_for(request, Right.READ)).text)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"The body is longer than {MAX_BODY_BYTES:,} bytes.")
    return bytes(body)
