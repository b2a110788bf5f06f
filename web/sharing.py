"""What a server that is shared on the network has beside the others. Event loop."""

from __future__ import annotations

from dataclasses import dataclass

from storage.devices import Devices
from web.access import loopback_hosts
from web.attempts import Attempts
from web.lan import LanHosts
from web.pairing import OwnerLink, PairingCodes
from web.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Sharing:
    """The names it answers to, what lets devices in, and the sessions of those that are in."""

    hosts: LanHosts
    codes: PairingCodes
    owner: OwnerLink
    attempts: Attempts
    sessions: Sessions

    def addresses(self, first: str = "") -> list[str]:
        """Where other devices find this server, the likeliest first. `first` goes before, if it is one."""
        found = sorted(self.hosts.addresses(), key=lambda address: address != first)
        return [f"http://{address}{self._port}" for address in found]

    def owner_url(self) -> str:
        """A new link for the owner's browsers; an earlier one is no longer good."""
        return f"http://127.0.0.1{self._port}/#owner={self.owner.issue()}"

    @property
    def _port(self) -> str:
        return "" if self.hosts.port == 80 else f":{self.hosts.port}"


def share(port: int, devices: Devices, hosts: LanHosts | None = None) -> Sharing:
    """Everything new; `hosts` is for doubles."""
    return Sharing(
        hosts=hosts or LanHosts(port, always=loopback_hosts(port)),
        codes=PairingCodes(),
        owner=OwnerLink(),
        attempts=Attempts(),
        sessions=Sessions(devices, port),
    )


def pairing_url(address: str, code: str) -> str:
    """A link that connects one device. What follows # stays in the browser: no server or log sees it."""
    return f"{address}/#pair={code}"
