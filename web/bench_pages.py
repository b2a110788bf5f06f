"""What a browser fetches to show the first page, read from the pages themselves."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from urllib.parse import urljoin, urlsplit

from inference.errors import BenchFailed

_NAMED = re.compile(r'<(?!link rel="apple-touch-icon")[^>]*? (?:href|src)="(/static/[^"#]+)')
_IMPORTED = re.compile(r'^(?:import|export)\b[^;]*?"(\./[^"]+)";', re.MULTILINE)


def first_load(url: str, language: str = "en") -> int:
    """The bytes of the empty chat and everything that it loads at once, uncompressed."""
    page = get(url, language)
    waiting, seen = [urljoin(url, path) for path in _NAMED.findall(page.decode())], set[str]()
    size = len(page)
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        body = get(address)
        size += len(body)
        if address.endswith(".js"):
            waiting += [urljoin(address, path) for path in _IMPORTED.findall(body.decode())]
    return size


def get(url: str, language: str = "en") -> bytes:
    """A page of the server. Raises `BenchFailed` where it is none."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=60)
    try:
        address = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", address, headers={"Accept-Language": language})
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise BenchFailed(f"{parts.path} was answered with status {response.status}.")
    return body
