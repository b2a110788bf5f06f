"""Sockets end with their session: at once when it is revoked, else at the next round. Event loop."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool

from storage.errors import StorageError
from web.hub import Ended, Hub
from web.sessions import Sessions

ROUND_S = 30 * 60.0
SESSION_OVER = 4401
"""The close code that tells a page to stop trying: this device has to be connected anew."""
SERVICE_RESTART = 1012


def over() -> Ended:
    """For a device that was disconnected, or whose session has expired."""
    return Ended(SESSION_OVER, "this device is not connected any more")


def renewed() -> Ended:
    """For a browser that has been let in again: its pages come back with the new session by themselves."""
    return Ended(SERVICE_RESTART, "this browser has a new session")


async def end_if_over(sessions: Sessions, hub: Hub, device_id: str) -> None:
    """Close the device's sockets unless its session is good. A database that cannot be read ends nothing."""
    try:
        valid = await run_in_threadpool(sessions.devices.is_valid, device_id)
    except StorageError:
        return
    if not valid:
        hub.end(device_id, over())


async def go_round(sessions: Sessions, hub: Hub) -> None:
    """Look at the sessions of all open sockets every half hour, for ever; who is there counts as seen."""
    while True:
        await sessions.pause(ROUND_S)
        for device_id in hub.devices():
            await end_if_over(sessions, hub, device_id)
        for device_id in hub.devices():
            await run_in_threadpool(sessions.notice, device_id)
