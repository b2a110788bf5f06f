"""The WebSocket: commands in, frames out. One task reads, one writes, neither waits for the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from storage.access import Right
from storage.errors import NotFound
from storage.records import MovedHead
from web.announcing import announce_begun, announce_moved, show_whole
from web.commands import (
    BadFrame,
    ClientFrame,
    Continue,
    Count,
    DeleteBranch,
    Edit,
    Regenerate,
    RestoreBranch,
    RetryModel,
    Send,
    Stop,
    Switch,
    Watch,
    decode,
)
from web.errors import KNOWN_ERRORS, error_frame
from web.faults import log_fault
from web.hub import Ended, Watcher
from web.message_views import end_seq
from web.permissions import may_stop, permit
from web.protocol import ConversationDeleted, Counted, Error
from web.services import Services
from web.session_checks import end_if_over
from web.sessions import device_of
from web.socket_limits import POLICY_VIOLATION, Conduct
from web.zones import zone_of

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 0.5

Ordered: TypeAlias = Send | Edit | Regenerate | Continue | Switch | DeleteBranch | RestoreBranch | Watch


async def chat(socket: WebSocket) -> None:
    """Serve one socket until either side closes it."""
    services: Services = socket.state.services
    await socket.accept()
    watcher = Watcher(services.languages.of(socket), device_of(socket), zone_of(socket))
    watcher.post(services.status_frame(watcher.language))
    services.hub.join(watcher)
    writing = asyncio.create_task(_write(socket, watcher))
    reading = asyncio.create_task(_read(socket, watcher, services))
    try:
        if services.sharing and watcher.device:  # it may have ended since the guard looked
            await end_if_over(services.sharing.sessions, services.hub, watcher.device.id)
        ends: set[asyncio.Future[Any]] = {writing, reading, watcher.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        services.hub.leave(watcher)
        for task in (writing, reading):
            task.cancel()
        for failure in await asyncio.gather(writing, reading, return_exceptions=True):
            if isinstance(failure, Exception):
                logger.error("a socket broke off", exc_info=failure)
    if watcher.ended.done():
        await _close(socket, watcher.ended.result())


async def _close(socket: WebSocket, ended: Ended) -> None:
    """Say why, to whoever reads it; the server cuts off one that does not."""
    with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await socket.close(ended.code, ended.reason)


async def _write(socket: WebSocket, watcher: Watcher) -> None:
    """Send what the watcher has. Whoever takes nothing keeps this waiting, until the server cuts it off."""
    try:
        while True:
            await socket.send_text(await watcher.next_frame())
    except Ended as ended:
        await _close(socket, ended)
    except (WebSocketDisconnect, RuntimeError):
        return  # gone; whatever it watched goes on without it


async def _read(socket: WebSocket, watcher: Watcher, services: Services) -> None:
    """Carry out commands in the order they come; a bad one is answered and the socket lives, unless there
    are too many.
    """
    conduct = Conduct(services.limits)
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        await conduct.take()
        try:
            command = decode(message.get("text") or message.get("bytes") or "")
        except BadFrame as error:
            watcher.post(error_frame(error, None))
            if conduct.is_too_bad():
                logger.warning("a socket was closed: %d frames were not ours", services.limits.bad_frames)
                watcher.part(Ended(POLICY_VIOLATION, "too many frames that were not understood"))
                await asyncio.wait([watcher.ended])  # the writing task closes the socket first
        else:
            await services.order.to_its_end(_handle(command, watcher, services))


async def _handle(command: ClientFrame, watcher: Watcher, services: Services) -> None:
    ref = command.id
    try:
        await permit(command, watcher.person, services)
        match command:
            case Stop():
                if await may_stop(command.message_id, watcher.person, services):
                    services.generations.stop(command.message_id)
            case Count():
                watcher.post(Counted(ref, await services.turns.count(command, watcher.person)))
            case RetryModel():
                services.engine.retry()
            case _:
                async with services.order.of(command.conversation_id):
                    await _in_order(command, watcher, services)
        await _look_again(watcher, services)
    except KNOWN_ERRORS as error:
        log_fault(error, ref)
        watcher.post(error_frame(error, ref))
    except Exception:
        logger.exception("command %s failed", ref)
        watcher.post(
            Error("internal", "The server failed while it did that. Nothing was lost; try again.", ref)
        )


async def _in_order(command: Ordered, watcher: Watcher, services: Services) -> None:
    match command:
        case Watch():
            await _watch(command, watcher, services)
        case Switch() | DeleteBranch() | RestoreBranch():
            at = command.message_id if isinstance(command, Switch) else None
            await announce_moved(command.id, await _move(command, services), services, watcher, at)
        case _:
            begun = await services.turns.begin(command, watcher.person)
            await announce_begun(command.id, begun, services, watcher)


async def _look_again(watcher: Watcher, services: Services) -> None:
    """What is looked at may have been hidden while the command was carried out; nobody told this socket."""
    if watcher.conversation_id is not None:
        see = services.access.conversation
        try:
            looked_at = watcher.conversation_id
            await run_in_threadpool(see, watcher.person, looked_at, Right.READ, even_deleted=True)
        except NotFound:
            watcher.look_away()


async def _move(command: Switch | DeleteBranch | RestoreBranch, services: Services) -> MovedHead:
    """Look at another branch; because it was asked for, or since the one that was looked at is deleted."""
    place = command.conversation_id, command.message_id
    match command:
        case Switch():
            return await run_in_threadpool(services.branches.switch, *place)
        case RestoreBranch():
            return await run_in_threadpool(services.branches.restore, *place)
        case DeleteBranch():
            await services.turns.refuse_while_written(*place)
            moved = await run_in_threadpool(services.branches.delete, *place)
            services.trash.empty_later()
            return moved


async def _watch(command: Watch, watcher: Watcher, services: Services) -> None:
    """Join a conversation where the page left it, or with a snapshot where events cannot mend the gap.

    What happens to it is told from the first line on: it may be deleted or brought back while it is read.
    """
    watcher.conversation_id = command.conversation_id
    try:
        conversation = await run_in_threadpool(services.conversations.get, command.conversation_id)
    except NotFound:  # it is deleted, as it was permitted
        watcher.unfollow()
        watcher.post(ConversationDeleted(command.conversation_id, deleted=True, ref=command.id))
        return
    if command.head_id == conversation.head_id:
        running = services.generations.get(command.head_id or "")
        if running is None and not command.running and await _is_as_seen(command, services):
            watcher.unfollow()
            return
        if running is not None and command.running and running.first_seq <= command.after_seq <= running.seq:
            watcher.follow(running, command.after_seq)
            return
    await show_whole(command.id, conversation.id, services, watcher)


async def _is_as_seen(command: Watch, services: Services) -> bool:
    """Whether the last message has not gone on since, which is told by its end; 0: the page does not ask."""
    if command.head_id is None or command.after_seq == 0:
        return True
    head = await run_in_threadpool(services.conversations.message, command.head_id)
    return end_seq(head) == command.after_seq
