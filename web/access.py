"""Who may speak to this server: the first check on every request, before any route is looked at.

A page on another site can make a browser send requests here (DNS rebinding, cross-site WebSockets, forms).
So the Host header must name one of this server's own addresses, and whatever changes state, sockets included,
must come from a page of that same address. Where the browser says which site a request comes from, another
site's page gets nothing at all, so that it cannot even measure how long an answer takes; following a link
here is left to people. Browsers do not say so over plain HTTP on a network: there Origin alone decides.
"""

from __future__ import annotations

from collections.abc import Container

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.lan import Scheme, host_values, is_private
from web.languages import Languages

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NOT_KEPT = {"Cache-Control": "no-store"}
SAFE_METHODS = {"GET", "HEAD"}
OWN_SITE = {"same-origin", "none"}
FORWARDING_HEADERS = {"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"}
FORWARDING_FAMILY = "x-forwarded"


class AccessGuard:
    """ASGI middleware: Host, then Origin, then the security headers on whatever is answered."""

    def __init__(self, app: ASGIApp, hosts: Container[str], languages: Languages) -> None:
        self._app = app
        self._hosts = hosts
        self._languages = languages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal})  # answered as 403
        else:
            language = self._languages.of(HTTPConnection(scope))
            response = PlainTextResponse(language.sentence(refusal), status_code=403)
            await response(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> str | None:
        """Why the request is not let in; None when it is."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return "This address is not one of Ondol's own."
        if not _is_on_private_network(scope):
            return "Ondol answers on private networks only."
        if any(name in FORWARDING_HEADERS or name.startswith(FORWARDING_FAMILY) for name in headers):
            return "Ondol does not run behind a proxy, and this request was forwarded by one."
        changes_state = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        is_foreign = changes_state and headers.getlist("origin") != [f"{_scheme(scope)}://{hosts[0].lower()}"]
        if is_foreign or _is_asked_by_another_site(scope, headers):
            return "That page does not belong to this server."
        return None


def loopback_hosts(port: int, scheme: Scheme = "http") -> set[str]:
    """The Host headers of a server on 127.0.0.1."""
    return host_values(("127.0.0.1", "localhost", "[::1]"), port, scheme)


def _scheme(scope: Scope) -> Scheme:
    """What the connection itself is: no header is asked."""
    return "https" if scope["scheme"] in ("https", "wss") else "http"


def _is_asked_by_another_site(scope: Scope, headers: Headers) -> bool:
    """Whether a page of another site asks for this, and not a person who follows a link.

    The site is looked at first: how a request is made is the other page's choice.
    """
    if OWN_SITE.issuperset(headers.getlist("sec-fetch-site")):
        return False
    how = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return scope["type"] == "websocket" or scope["method"] != "GET" or how != ("navigate", "document")


def _is_on_private_network(scope: Scope) -> bool:
    """Whether neither end of the connection is a public address. That lets nobody in: it only keeps out."""
    ends = (scope.get("client"), scope.get("server"))
    return all(end is not None and is_private(end[0]) for end in ends)


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            for name, value in NOT_KEPT.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
