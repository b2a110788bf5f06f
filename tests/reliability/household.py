"""People who talk to a server that fails, and who remember what it has acknowledged."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from storage.files import FILE_NAME
from storage.sqlite import load_library
from tests.reliability.servers import scripted
from tests.web.client import Client, shown

ROWS = "SELECT id, parent_id, client_id, role, text, status FROM messages"
CHECKPOINT_TOKENS = 64
"""A token of the double is a byte."""
RENDERS = 10
"""A reply is shown at most that many times a second."""


@dataclass(frozen=True, slots=True)
class Row:
    """A message as the database has it."""

    id: str
    parent_id: str | None
    client_id: str | None
    role: str
    text: str
    status: str


def read_rows(folder: Path) -> list[Row]:
    """All messages, once the file was found sound. Another connection may be writing."""
    library = load_library()
    with closing(library.connect(str(folder / "data" / FILE_NAME))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return [Row(*row) for row in connection.execute(ROWS)]


@dataclass
class Acknowledged:
    """What a client was told, and must therefore be there."""

    asked: dict[str, str | None] = field(default_factory=dict)
    """The text of every command, by its id; None for one that only asks for a reply, or for more of one."""
    accepted: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The first answer to each command."""
    ended: set[str] = field(default_factory=set)
    """Replies that `finished` was said of."""
    written: dict[str, list[int]] = field(default_factory=dict)
    """How many bytes of a reply were shown at every change, by the server that wrote at it last."""

    def note(self, frames: list[dict[str, Any]]) -> None:
        """What came over one socket, from its first frame on."""
        written: dict[str, list[int]] = {}
        for number, frame in enumerate(frames):
            match frame["type"]:
                case "accepted":
                    before = self.accepted.setdefault(frame["ref"], frame)
                    assert (before["user_id"], before["reply_id"]) == (frame["user_id"], frame["reply_id"])
                case "finished" if frame["finish_reason"] == "stop":
                    self.ended.add(frame["message_id"])
                case "delta":
                    text = text_of(shown(frames[: number + 1], frame["message_id"]))
                    written.setdefault(frame["message_id"], []).append(len(text.encode()))
        self.written |= written

    def check(self, rows: list[Row]) -> None:
        """Everything acknowledged is there once, and nothing that was not asked for.

        A reply is what the double says or its beginning. Of one that broke off, at most as many tokens are
        missing as lie between two checkpoints, and what was shown in the last second.
        """
        by_id = {row.id: row for row in rows}
        questions = [row for row in rows if row.role == "user"]
        replies = [row for row in rows if row.role == "assistant"]
        assert max(Counter(row.client_id for row in rows if row.client_id).values(), default=0) <= 1
        assert all(row.client_id in self.asked for row in rows if row.client_id)
        # Each question came with one reply; further ones were asked for.
        first = Counter(row.parent_id for row in replies if row.client_id is None)
        assert first == Counter(row.id for row in questions)
        for row in questions:
            assert row.text == self.asked[row.client_id or ""]
        for ref, frame in self.accepted.items():
            question, reply = by_id[frame["user_id"]], by_id[frame["reply_id"]]
            assert reply.parent_id == question.id
            assert self.asked[ref] is None or question.client_id == ref
        for row in replies:
            self._check_reply(row, scripted(by_id[row.parent_id or ""].text))

    def _check_reply(self, row: Row, whole: str) -> None:
        assert whole.startswith(row.text)
        assert row.status in ("done", "interrupted")
        assert row.status == "interrupted" or row.text == whole
        assert row.status == "done" or row.id not in self.ended
        if row.status == "interrupted":
            shown_before = [*[0] * RENDERS, *self.written.get(row.id, [0])][-1 - RENDERS]
            assert len(row.text.encode()) >= shown_before - CHECKPOINT_TOKENS - len("글".encode())


class Person(Client):
    """A client that can be cut off, and says what it has read until then."""

    def until_cut_off(self) -> Iterator[dict[str, Any]]:
        """All that still comes."""
        try:
            while True:
                yield self.receive()
        except ConnectionClosed:
            return


@contextmanager
def person_at(url: str) -> Iterator[Person]:
    """Somebody who has a page of the server open."""
    with connect(url.replace("http", "ws", 1) + "/ws", origin=url, max_size=2**24) as connection:
        yield Person(connection)


def text_of(markup: str) -> str:
    """The text of rendered paragraphs."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup)).strip()
