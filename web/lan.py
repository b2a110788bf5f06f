"""This machine on its network: its addresses, the names it answers to, and pictures of a link. IPv4 only.

Only private networks are served: the wildcard address is listened on, so that a changed address needs no new
start, and whatever comes from or to a public address is refused.
"""

from __future__ import annotations

import io
import re
import socket
import time
from collections.abc import Callable, Iterable
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Literal

import psutil
import segno

REREAD_S = 5.0
ROUTES = Path("/proc/net/route")
VIRTUAL = ("docker", "br-", "veth", "virbr", "vmnet", "vboxnet", "tun", "tap", "wg", "tailscale", "zt")
Scheme = Literal["http", "https"]
USUAL_PORTS: dict[Scheme, int] = {"http": 80, "https": 443}
INK, PAPER = "#211d18", "#fff"


def private_addresses() -> list[str]:
    """This machine's addresses on private networks; the one that others most likely reach comes first."""
    default = _default_interface()
    found = []
    for name, addresses in psutil.net_if_addrs().items():
        for each in addresses:
            if each.family == socket.AF_INET and is_private(each.address) and not _is_own(each.address):
                found.append((name != default, name.startswith(VIRTUAL), each.address))
    return [address for *_, address in sorted(found, key=lambda each: each[:2])]


def is_private(address: str) -> bool:
    """Whether an address cannot be reached from the Internet. What is no IPv4 address is not private."""
    try:
        return not IPv4Address(address).is_global
    except AddressValueError:
        return False


def host_names() -> list[str]:
    """What this machine is called, and what multicast DNS calls it."""
    name = socket.gethostname().lower()
    if not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)*", name):
        return []
    return sorted({name, name.partition(".")[0] + ".local"})


def host_values(names: Iterable[str], port: int, scheme: Scheme = "http") -> set[str]:
    """How browsers write these names and this port in the Host header."""
    names = set(names)
    return {f"{name}:{port}" for name in names} | (names if port == USUAL_PORTS[scheme] else set())


class LanHosts:
    """The Host headers that this server answers to on the network.

    An unknown one makes it read the machine's addresses again, at most every five seconds: they change while
    it runs.
    """

    def __init__(
        self,
        port: int,
        *,
        always: Iterable[str],
        names: Callable[[], list[str]] = host_names,
        addresses: Callable[[], list[str]] = private_addresses,
        clock: Callable[[], float] = time.monotonic,
        scheme: Scheme = "http",
        on_read: Callable[[list[str]], None] = lambda names: None,
    ) -> None:
        """`on_read` is told of all names and addresses whenever they were read."""
        self.port = port
        self.scheme: Scheme = scheme
        self._on_read = on_read
        self._always = frozenset(always)
        self._names = names
        self._addresses = addresses
        self._clock = clock
        self._read_at = float("-inf")
        self._known: frozenset[str] = frozenset()
        self._current: list[str] = []
        self._local: list[str] = []

    def __contains__(self, host: object) -> bool:
        if host in self._always or host in self._known:
            return True
        self._refresh()
        return host in self._known

    def addresses(self) -> list[str]:
        """This machine's addresses on private networks, read not longer than five seconds ago."""
        self._refresh()
        return self._current

    def local_names(self) -> list[str]:
        """What multicast DNS calls this machine, where the network has that."""
        self._refresh()
        return self._local

    def _refresh(self) -> None:
        if self._clock() - self._read_at < REREAD_S:
            return
        self._read_at = self._clock()
        self._current = self._addresses()
        names = self._names()
        self._local = [name for name in names if name.endswith(".local")]
        own = [*self._current, *names]
        self._known = frozenset(host_values(own, self.port, self.scheme))
        self._on_read(own)


def qr_svg(link: str) -> str:
    """The link as an inline SVG without styles; dark on light in every theme, as scanners need it."""
    return segno.make_qr(link, error="m").svg_inline(
        border=4, dark=INK, light=PAPER, svgclass="qr", omitsize=True
    )


def qr_text(link: str) -> str:
    """The link as text, two rows of modules in a line. To be shown dark on light."""
    out = io.StringIO()
    rows = [list(row) for row in segno.make_qr(link, error="l").matrix_iter(border=2)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    for upper, lower in zip(rows[::2], rows[1::2], strict=True):
        out.write("".join(" ▄▀█"[2 * top + bottom] for top, bottom in zip(upper, lower, strict=True)) + "\n")
    return out.getvalue()


def _is_own(address: str) -> bool:
    """Loopback never leaves the machine; link-local addresses come and go by themselves."""
    parsed = IPv4Address(address)
    return parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified or parsed.is_multicast


def _default_interface() -> str | None:
    """The interface that leads out of this network; Linux tells it in a file."""
    try:
        lines = ROUTES.read_text().splitlines()[1:]
    except OSError:
        return None
    rows = [line.split() for line in lines]
    return next((row[0] for row in rows if len(row) > 1 and row[1] == "00000000"), None)
