"""Refuses whatever would leave this machine, and notes it: in the tests' own process, and in all Pythons that
they start, where `sitecustomize` arms it. Any thread.

Two programs are not guarded. pip may fetch the default model's wheel, which is what a person's first start
does. A browser has rules of its own, see `tests/browser/browser.py`.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from pathlib import Path

NOTES = "ONDOL_TEST_OUTBOUND"
"""The environment variable that names the file in which refusals are noted."""

TO_ADDRESS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
OF_NAME = {"socket.getaddrinfo", "socket.gethostbyname"}


def arm() -> None:
    """From now on, for as long as this process lives."""
    sys.addaudithook(_hook)


def notes() -> list[str]:
    """What was refused so far."""
    path = Path(os.environ[NOTES])
    return path.read_text().splitlines() if path.exists() else []


def is_pip() -> bool:
    """Whether this process is pip, begun as Ondol begins it."""
    return sys.orig_argv[1:3] == ["-m", "pip"]


def is_here(host: object) -> bool:
    """Whether a host is this machine. What is no Internet address (a socket's file, a number) is."""
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str) or host in ("", "localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified or host in _own_addresses()


def _own_addresses() -> set[str]:
    import psutil

    return {each.address for found in psutil.net_if_addrs().values() for each in found}


def _hook(event: str, args: tuple[object, ...]) -> None:
    if event in TO_ADDRESS:
        address = args[1]
        host = address[0] if isinstance(address, tuple) else None
    elif event in OF_NAME:
        host = args[0]
    else:
        return
    if is_here(host):
        return
    program = " ".join(sys.orig_argv)[:200].replace("\n", " ")
    with open(os.environ[NOTES], "a") as file:
        file.write(f"{event} to {host} by {program}\n")
    raise ConnectionRefusedError(f"The tests do not speak to {host}.")
