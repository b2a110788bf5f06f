"""Row 35, and that asking changes nothing: all the routes there are, whoever asks, whatever comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from sqlalchemy import inspect, text
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute

from storage.database import Database
from tests.web.client import WAIT_S
from tests.web.serving import Served
from web.presenter import static_build
from web.routes import routes

Serve = Callable[..., Served]

STATIC = f"/static/{static_build()}"
KEPT_FOR_EVER = "public, max-age=31536000, immutable"
"""Of static files alone: their address has a digest of their content in it."""
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "manifest-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
LARGE = b"x" * 70_000


async def raises(request: Request) -> Response:
    raise ValueError("what nobody expected")


def check(answer: httpx2.Response) -> None:
    """Every answer has the headers."""
    headers, where = answer.headers, (answer.request.method, str(answer.request.url), answer.status_code)
    policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
    assert policy == POLICY, where
    assert headers["x-content-type-options"] == "nosniff", where
    assert headers["referrer-policy"] == "no-referrer", where
    assert headers["x-frame-options"] == "DENY", where
    assert headers["cross-origin-resource-policy"] == "same-origin", where
    assert [name for name in headers if name.startswith("access-control")] == [], where
    is_file = answer.request.url.path.startswith(STATIC) and headers["cache-control"] != "no-store"
    assert not is_file or answer.status_code in (200, 206, 304, 416), where
    assert headers["cache-control"] == (KEPT_FOR_EVER if is_file else "no-store"), where


def paths(ids: list[str]) -> Iterator[tuple[str, set[str]]]:
    """Every address with its methods; where an id belongs, each of these in turn."""
    for route in routes():
        if isinstance(route, Route):
            methods = {method for method in route.methods or () if method != "HEAD"}
            for each in ids if "{id}" in route.path else ids[:1]:
                yield route.path.replace("{id}", each).replace("{code}", "ko"), methods
        elif isinstance(route, Mount):
            assert route.path == STATIC
            for file in ("/js/app.js", "/css/base+chat.css", "/absent", "/../pyproject.toml", "/css/a+b.css"):
                yield route.path + file, {"GET"}
        else:
            assert isinstance(route, WebSocketRoute)


def asked(client: httpx2.Client, ids: list[str], own: str) -> Iterator[httpx2.Response]:
    """The answers to everything that can be asked, over HTTP and by these methods."""
    for path, methods in paths(ids):
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"):
            yield client.request(method, path)
        for origin in (own, "http://evil.test"):
            yield client.post(path, content=b"{}", headers={"Origin": origin})
        if "POST" in methods and path != "/api/import":
            yield client.post(path, content=LARGE, headers={"Origin": own})
    for path in ("/nowhere", "/conversations/", "/raises", f"{STATIC}/js", "/static/old/js/app.js"):
        yield client.get(path)
    yield client.post("/raises", headers={"Origin": own})
    yield client.get(f"{STATIC}/js/app.js", headers={"Range": "bytes=0-9"})
    yield client.get(f"{STATIC}/js/app.js", headers={"Range": "bytes=999999999-"})
    tag = client.get(f"{STATIC}/js/app.js").headers["etag"]
    yield client.get(f"{STATIC}/js/app.js", headers={"If-None-Match": tag})


@pytest.mark.row(35)
@pytest.mark.parametrize("who", ["a stranger", "the owner", "anybody, not shared"])
def test_every_answer_has_the_headers(serve: Serve, who: str) -> None:
    served = serve(lan="not shared" not in who, routes=[Route("/raises", raises, methods=["GET", "POST"])])
    cookie = served.owner() if who == "the owner" else ""
    accepted = said(served, cookie) if who != "a stranger" else {}
    ids = ["absent", *(accepted[name] for name in ("conversation_id", "reply_id") if accepted)]
    statuses = set()
    with httpx2.Client(
        base_url=served.url, headers={"Cookie": cookie} if cookie else {}, timeout=WAIT_S
    ) as client:
        for answer in asked(client, ids, served.url):
            check(answer)
            statuses.add(answer.status_code)
        served.database.close()
        answer = client.get("/")
        check(answer)
        statuses.add(answer.status_code)
    if who == "a stranger":
        assert statuses >= {200, 206, 304, 400, 401, 403, 404, 405, 413, 416}
    else:
        assert statuses >= {200, 202, 204, 206, 304, 307, 400, 403, 404, 405, 413, 416, 500, 503}


def said(served: Served, cookie: str) -> dict[str, Any]:
    """The ids of a conversation, with nobody watching it any more."""
    client = served.ready_client(cookie)
    accepted, _ = client.say_and_wait("hello")
    client.close()
    return accepted


def rows(database: Database) -> dict[str, list[tuple[object, ...]]]:
    """Everything that is stored."""
    with database.read() as session:
        tables = inspect(session.connection()).get_table_names()
        return {
            table: [tuple(row) for row in session.execute(text(f'SELECT * FROM "{table}"'))]
            for table in tables
        }


def test_asking_for_every_address_there_is_changes_nothing(serve: Serve) -> None:
    served = serve()
    accepted = said(served, "")
    ids = [accepted["conversation_id"], accepted["reply_id"]]
    before = rows(served.database)
    assert before["messages"]
    with httpx2.Client(base_url=served.url, timeout=WAIT_S) as client:
        for path, methods in paths(ids):
            assert methods in ({"GET"}, {"POST"}, {"GET", "POST"})
            for method in ("GET", "HEAD"):
                client.request(method, path)
            client.get(path, params={"q": "hello", "text": "hello", "on": "1", "title": "x", "at": ids[1]})
    assert rows(served.database) == before
