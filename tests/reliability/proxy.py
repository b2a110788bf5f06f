"""A bad network: a TCP proxy on 127.0.0.1 that delays, throttles, cuts and half-closes.

It has an event loop in a thread of its own.

A server checks the Host header, so whoever connects through the proxy names the server in it: see
`Served.client(through=...)`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, TypeAlias

PIECE = 1_024
BUFFER = 4_096
"""Bytes kept on the way, if it can be: the server is soon to feel a slow reader."""
WAIT_S = 20
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time to linger

Break: TypeAlias = Literal["reset", "close", "half_close", "silence"]


@dataclass(frozen=True, slots=True)
class Way:
    """How the bytes in one direction fare: each piece arrives `delay_s` late, and `bytes_per_s` at most pass.

    After `cut_after` bytes it breaks: with `reset` or `close` both directions do, with `half_close` the
    receiver is told the end of this one, with `silence` nothing comes any more and nobody is told.
    """

    delay_s: float = 0.0
    bytes_per_s: int | None = None
    cut_after: int | None = None
    breaks: Break = "reset"


@dataclass(frozen=True, slots=True)
class Line:
    """One connection: `up` to the server, `down` to the client."""

    up: Way = Way()
    down: Way = Way()


class _Cut(OSError):
    """Both directions break."""


class Proxy:
    """Carries connections to a port of this machine; `line` says how the nth of them, from 0, fares.

    `carried` counts the bytes that went down, by connection; `broken` the ways that broke at their byte.
    """

    def __init__(self, target: int, line: Callable[[int], Line] = lambda number: Line()) -> None:
        self._target = target
        self._line = line
        self._numbers = count()
        self._open: set[asyncio.Task[None]] = set()
        self.carried: list[int] = []
        self.broken = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, "127.0.0.1", 0, limit=BUFFER))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Reset every connection that is open now."""
        self._run(self._end_all())

    def close(self) -> None:
        """Reset everything and let nobody in any more."""
        self._loop.call_soon_threadsafe(self._server.close)
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    async def _end_all(self) -> None:
        tasks = tuple(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(self._numbers)
        self.carried.append(0)
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        line = self._line(number)
        writers = [writer]
        try:
            up_reader, up_writer = await self._connect()
            writers.append(up_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, up_writer, line.up, None))
                both.create_task(self._carry(up_reader, writer, line.down, number))
        except* OSError:  # a `_Cut` is one
            pass
        except* asyncio.CancelledError:
            for each in writers:
                _will_reset(each)
        finally:
            self._open.discard(task)
            for each in writers:
                each.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        upstream = socket.socket()
        upstream.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER
        )  # takes effect before connecting only
        upstream.setblocking(False)
        await self._loop.sock_connect(upstream, ("127.0.0.1", self._target))
        return await asyncio.open_connection(sock=upstream, limit=BUFFER)

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way, number: int | None
    ) -> None:
        passed = 0
        while way.cut_after is None or passed < way.cut_after:
            most = PIECE if way.cut_after is None else min(PIECE, way.cut_after - passed)
            piece = await source.read(most)
            if not piece:
                sink.write_eof()
                return
            await asyncio.sleep(way.delay_s + (len(piece) / way.bytes_per_s if way.bytes_per_s else 0))
            sink.write(piece)
            await sink.drain()
            passed += len(piece)
            if number is not None:
                self.carried[number] = passed
        await self._break(sink, way.breaks)

    async def _break(self, sink: asyncio.StreamWriter, how: Break) -> None:
        self.broken += 1
        match how:
            case "half_close":
                sink.write_eof()
            case "silence":
                await asyncio.Event().wait()
            case "close":
                raise _Cut
            case "reset":
                _will_reset(sink)
                raise _Cut


def _will_reset(writer: asyncio.StreamWriter) -> None:
    """Its end will be a reset instead of an orderly one."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
