"""Files that people download while they are being made."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Generator, Iterator
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from web.file_names import content_disposition

AT_ONCE = 65_536
STALL_S = 60.0
"""Whoever takes nothing for so long gets no more: the reading holds a view of the whole database."""


class Download(Response):
    """A file in pieces, made in pool threads while it is sent.

    What goes wrong before the first is an error as any other; later it breaks the connection, so that no file
    looks whole.
    """

    def __init__(self, pieces: Iterator[bytes], name: str, media_type: str) -> None:
        super().__init__(media_type=media_type, headers={"Content-Disposition": content_disposition(name)})
        del self.headers["content-length"]
        self._pieces = gathered(pieces)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_gone(receive))
        try:
            piece = await run_in_threadpool(next, self._pieces, b"")
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while piece and not gone.done():
                async with asyncio.timeout(STALL_S):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await run_in_threadpool(next, self._pieces, b"")
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
            await run_in_threadpool(self._pieces.close)


def gathered(pieces: Iterator[bytes]) -> Generator[bytes, None, None]:
    """The same in larger pieces; closes what it reads from."""
    waiting = bytearray()
    try:
        for piece in pieces:
            waiting += piece
            if len(waiting) >= AT_ONCE:
                yield bytes(waiting)
                waiting.clear()
        if waiting:
            yield bytes(waiting)
    finally:
        if isinstance(pieces, Generator):
            pieces.close()


def zipped(files: Iterator[tuple[str, bytes]]) -> Generator[bytes, None, None]:
    """A .zip of named files, as it grows."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """What is written, until it is taken."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        content = bytes(memoryview(data))  # type: ignore[arg-type]
        self._written += content
        return len(content)

    def taken(self) -> bytes:
        content = bytes(self._written)
        self._written.clear()
        return content


async def _gone(receive: Receive) -> None:
    """Ends when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
