"""What a server that is shared on the network has beside the others. Event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from storage.devices import Devices
from web.attempts import Attempts
from web.lan import USUAL_PORTS, LanHosts
from web.pairing import OwnerLink, PairingCodes
from web.sessions import Sessions
from web.tls import Tls


@dataclass(frozen=True, slots=True)
class Sharing:
    """The names it answers to, what lets devices in, and the sessions of those that are in."""

    hosts: LanHosts
    codes: PairingCodes
    owner: OwnerLink
    attempts: Attempts
    sessions: Sessions
    tls: Tls | None = None

    def addresses(self, first: str = "") -> list[str]:
        """Where other devices find this server, the likeliest first. `first` goes before, if it is one.

        The name comes last: not every network and device knows it.
        """
        found = sorted(self.hosts.addresses(), key=lambda address: address != first)
        names = self.hosts.local_names() if found else []
        return [f"{self.hosts.scheme}://{place}{self._port}" for place in (*found, *names)]

    def owner_url(self) -> str:
        """A new link for the owner's browsers; an earlier one is no longer good."""
        return f"{self.hosts.scheme}://127.0.0.1{self._port}/#owner={self.owner.issue()}"

    @property
    def _port(self) -> str:
        return "" if self.hosts.port == USUAL_PORTS[self.hosts.scheme] else f":{self.hosts.port}"


def share(
    devices: Devices,
    hosts: LanHosts,
    tls: Tls | None = None,
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Sharing:
    """Everything new; `pause` is for doubles."""
    return Sharing(
        hosts=hosts,
        codes=PairingCodes(),
        owner=OwnerLink(),
        attempts=Attempts(),
        sessions=Sessions(devices, hosts.port, secure=tls is not None, pause=pause),
        tls=tls,
    )


def pairing_url(address: str, code: str) -> str:
    """A link that connects one device. What follows # stays in the browser: no server or log sees it."""
    return f"{address}/#pair={code}"
