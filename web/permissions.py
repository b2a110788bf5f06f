"""Who asks, and whether they may: the one place where ids from outside become conversations and messages.

Commands are checked here before anything else looks at them, and handlers of HTTP take what their addresses
name from here. Event loop.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from storage.access import Right
from storage.errors import NotFound
from storage.records import OWNER, ConversationRecord, MessageRecord
from web.commands import (
    ClientFrame,
    Count,
    DeleteBranch,
    RestoreBranch,
    RetryModel,
    Send,
    Stop,
    Watch,
)
from web.services import Services
from web.sessions import device_of


def person_of(connection: HTTPConnection) -> str:
    """Whose device that is. A server that is not shared has its owner only."""
    services: Services = connection.state.services
    device = device_of(connection)
    if device is not None:
        return device.person_id
    if services.sharing is not None:  # the guard lets nobody else come here; were that to change, this stays
        raise HTTPException(401, "This device is not connected.")
    return OWNER


async def permit(command: ClientFrame, person: str, services: Services) -> None:
    """Raises `NotFound` for what is hidden from the person, and `NotAllowed` for what they may only see."""
    match command:
        case RetryModel() | Stop():
            return  # nobody's; and see `may_stop`
        case Send(conversation_id=None) | Count(conversation_id=None):
            if command.parent_id is not None:
                raise NotFound(f"There is no message {command.parent_id}.")
            return
        case _:
            check = services.access.conversation
            asked = person, command.conversation_id or "", _right_for(command)
            await run_in_threadpool(check, *asked, even_deleted=isinstance(command, Watch))


async def may_stop(reply_id: str, person: str, services: Services) -> bool:
    """Whether there is a running reply that the person may stop. One that is hidden from them is none, and
    none is no error: it may have ended just now. Raises `NotAllowed`.
    """
    running = services.generations.get(reply_id)
    if running is None:
        return False
    check = services.access.conversation
    try:
        await run_in_threadpool(check, person, running.conversation_id, Right.WRITE)
    except NotFound:
        return False
    return True


def _right_for(command: ClientFrame) -> Right:
    match command:
        case Watch() | Count():
            return Right.READ
        case DeleteBranch() | RestoreBranch():
            return Right.OWN
        case _:
            return Right.WRITE


async def conversation_for(
    request: HTTPConnection, right: Right, *, even_deleted: bool = False
) -> ConversationRecord:
    """The conversation that the address names. Raises `NotFound` and `NotAllowed`."""
    services: Services = request.state.services
    asked = person_of(request), request.path_params["id"], right
    return await run_in_threadpool(services.access.conversation, *asked, even_deleted=even_deleted)


async def message_for(request: HTTPConnection, right: Right) -> MessageRecord:
    """The message that the address names. Raises `NotFound` and `NotAllowed`."""
    services: Services = request.state.services
    asked = person_of(request), request.path_params["id"], right
    return await run_in_threadpool(services.access.message, *asked)


async def reply_for(request: HTTPConnection, right: Right) -> MessageRecord:
    """As `message_for`; `NotFound` for messages that are no replies, too."""
    message = await message_for(request, right)
    if message.role != "assistant":
        raise NotFound(f"There is no message {message.id}.")
    return message
