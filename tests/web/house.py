"""A shared server and the people of its house."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from storage.people import People
from tests.web.serving import Served, cookie_of
from web.pairing import Invited

SECRET = "the spare key lies under the third stone"
OPENING = {"system_prompt": "", "params": {}, "thinking": None}
BODIES: dict[str, Any] = {
    "rename": {"title": "Mine"},
    "pin": {"on": True, "pinned": True},
    "archive": {"on": True},
    "share": {"shared": "write"},
    "settings": OPENING,
    "presets": {"name": "Mine", "text": "x", "shared": False},
}


@dataclass
class House:
    """A shared server with two people who are not its owner. Minji has a conversation with a finished reply,
    and one in which a reply is being written.
    """

    served: Served
    minji: str
    jun: str
    conversation: str
    question: str
    reply: str
    running: str
    running_in: str
    go_on: threading.Semaphore

    def get(self, path: str, cookie: str) -> httpx2.Response:
        return self.served.get(path, Cookie=cookie)

    def post(self, path: str, body: Any, cookie: str) -> httpx2.Response:
        return self.served.post(path, body, Cookie=cookie)

    def share(self, shared: str | None) -> None:
        answer = self.post(f"/api/conversations/{self.conversation}/share", {"shared": shared}, self.minji)
        assert answer.status_code == 204, answer.text

    def delete(self) -> None:
        answer = self.post(f"/api/conversations/{self.conversation}/delete", {}, self.minji)
        assert answer.status_code == 204, answer.text

    def rows(self) -> list[tuple[Any, ...]]:
        """Everything that is stored."""
        with self.served.database.read() as session:
            connection = session.connection()
            tables = ("conversations", "messages", "presets", "defaults", "people", "continuations")
            queries = [f"SELECT * FROM {name}" for name in tables]
            return [tuple(row) for query in queries for row in connection.exec_driver_sql(query)]


def a_person(served: Served, name: str) -> str:
    """A new person's cookie, as a header."""
    return cookie_of(served.join(code=served.sharing.codes.issue(Invited(None, name))))


@contextmanager
def nothing_changes(house: House) -> Iterator[None]:
    before = house.rows()
    yield
    assert house.rows() == before


def whose(house: House, name: str) -> str:
    return next(person for person, called in People(house.served.database).names().items() if called == name)
