"""The WebSocket: commands in, frames out. One task reads, one writes, neither waits for the other."""

from __future__ import annotations

import asyncio
import logging

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from web.errors import KNOWN_ERRORS, error_frame
from web.hub import Overflow, Watcher
from web.presenter import Presenter, message_view
from web.protocol import (
    Accepted,
    Count,
    Counted,
    Error,
    RetryModel,
    Send,
    Snapshot,
    Stop,
    Watch,
    decode,
    encode,
)
from web.services import Services
from web.sessions import device_of
from web.turns import Begun

logger = logging.getLogger(__name__)

SEND_TIMEOUT_S = 10.0
TRY_AGAIN_LATER = 1013


async def chat(socket: WebSocket) -> None:
    """Serve one socket until either side closes it."""
    services: Services = socket.state.services
    await socket.accept()
    watcher = Watcher(services.languages.of(socket), device_of(socket))
    watcher.post(services.status_frame(watcher.language))
    services.hub.join(watcher)
    writing = asyncio.create_task(_write(socket, watcher))
    reading = asyncio.create_task(_read(socket, watcher, services))
    try:
        await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        services.hub.leave(watcher)
        for task in (writing, reading):
            task.cancel()
        await asyncio.gather(writing, reading, return_exceptions=True)


async def _write(socket: WebSocket, watcher: Watcher) -> None:
    """Send what the watcher has, until it reads no more."""
    try:
        while True:
            for frame in await watcher.frames():
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await socket.send_text(encode(frame))
    except Overflow:
        await socket.close(TRY_AGAIN_LATER, "too many frames unread")
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        return  # gone, or not reading; whatever it watched goes on without it


async def _read(socket: WebSocket, watcher: Watcher, services: Services) -> None:
    """Carry out commands in the order they come; a bad one is answered and the socket lives."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        await _handle(message.get("text") or message.get("bytes") or "", watcher, services)


async def _handle(text: str | bytes, watcher: Watcher, services: Services) -> None:
    ref = None
    try:
        command = decode(text)
        ref = command.id
        match command:
            case Send():
                await _send(command, watcher, services)
            case Stop():
                services.generations.stop(command.message_id)
            case Watch():
                await _watch(command, watcher, services)
            case Count():
                watcher.post(Counted(command.id, await services.turns.count(command)))
            case RetryModel():
                services.engine.retry()
    except KNOWN_ERRORS as error:
        watcher.post(error_frame(error, ref))
    except Exception:
        logger.exception("command %s failed", ref)
        watcher.post(
            Error("internal", "The server failed while it did that. Nothing was lost; try again.", ref)
        )


async def _send(command: Send, watcher: Watcher, services: Services) -> None:
    begun = await services.turns.send(command)
    turn = begun.turn
    frames = await services.in_each_language(lambda p: _accepted(command.id, begun, p))
    watcher.conversation_id = turn.conversation.id
    watching = [watcher] if turn.repeated else list(services.hub.watching(turn.conversation.id))
    for each in watching:
        each.post(frames)
        if begun.generation is not None:
            each.follow(begun.generation, 0)
    if not turn.repeated:
        await services.announce_conversations()


def _accepted(ref: str, begun: Begun, presenter: Presenter) -> Accepted:
    turn = begun.turn
    return Accepted(
        ref=ref,
        conversation_id=turn.conversation.id,
        user_id=turn.user.id,
        reply_id=turn.reply.id,
        user_html=presenter.message(message_view(turn.user)),
        reply_html=presenter.message(message_view(turn.reply)),
        cut_id=turn.conversation.cut_id,
    )


async def _watch(command: Watch, watcher: Watcher, services: Services) -> None:
    """Join a conversation where the page left it, or with a snapshot where events cannot mend the gap."""
    conversation = await run_in_threadpool(services.conversations.get, command.conversation_id)
    watcher.conversation_id = conversation.id
    running = services.generations.in_conversation(conversation.id)
    same_head = command.head_id == conversation.head_id
    if same_head and running is None and not command.running:
        watcher.unfollow()
        return
    if same_head and running is not None and command.running and command.after_seq <= running.seq:
        watcher.follow(running, command.after_seq)
        return
    watcher.unfollow()
    shown = await services.transcript(conversation)
    presenter = services.presenters[watcher.language.code]
    html = await run_in_threadpool(presenter.transcript, shown.view)
    watcher.post(Snapshot(command.id, conversation.id, html, shown.context))
    if shown.running is not None:
        watcher.follow(shown.running, shown.seq)
