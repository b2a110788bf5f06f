"""Many people at once, for a while: nobody sees what belongs to others, and everybody is served."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from websockets import Origin
from websockets.asyncio.client import ClientConnection, connect

from tests.reliability.house import House, answer
from tests.reliability.stored import branches
from tests.web.client import WAIT_S

CHATS = 20
SOCKETS = 50
WORDS = 12
LOADED_S = 3 * WAIT_S

Frame = dict[str, Any]


@dataclass
class Page:
    """One socket, which looks at one chat. `problems` is what it saw and should not have."""

    connection: ClientConnection
    chat: int
    conversation: str = ""
    problems: list[str] = field(default_factory=list)
    _seqs: dict[str, int] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)
    name: str = field(default_factory=lambda: uuid4().hex)
    _sent: int = 0

    async def send(self, kind: str, **fields: Any) -> str:
        self._sent += 1
        ref = f"{self.name}-{self._sent}"
        await self.connection.send(json.dumps({"type": kind, "id": ref, **fields}))
        return ref

    async def wait_for(self, kind: str, **fields: Any) -> Frame:
        while True:
            frame: Frame = json.loads(await asyncio.wait_for(self.connection.recv(), LOADED_S))
            self._look(frame)
            if frame["type"] == kind and all(frame.get(key) == value for key, value in fields.items()):
                return frame

    async def follow(self) -> None:
        """Look at what comes until there is no more."""
        async for text in self.connection:
            self._look(json.loads(text))

    def _look(self, frame: Frame) -> None:
        match frame["type"]:
            case "error":
                self.problems.append(f"an error: {frame}")
            case "accepted":
                self._begun.add(frame["reply_id"])
                self._look_at_text(frame["user_html"] + frame["reply_html"])
            case "delta" | "finished":
                self._look_at_order(frame)
                self._look_at_text(json.dumps(frame))

    def _look_at_order(self, frame: Frame) -> None:
        reply, seq = frame["message_id"], frame["seq"]
        if reply not in self._begun or reply in self._ended:
            self.problems.append(f"before its beginning, or after its end: {frame}")
        if seq <= self._seqs.get(reply, 0):
            self.problems.append(f"not in order: {seq} after {self._seqs[reply]}")
        self._seqs[reply] = seq
        if frame["type"] == "finished":
            self._ended.add(reply)

    def _look_at_text(self, html: str) -> None:
        others = [name for name in (f"chat{n}x" for n in range(CHATS) if n != self.chat) if name in html]
        if others:
            self.problems.append(f"chat {self.chat} shows what belongs to {others}")


@asynccontextmanager
async def opened(house: House, chat: int) -> AsyncIterator[Page]:
    address = house.url.replace("http", "ws") + "/ws"
    async with connect(address, origin=Origin(house.url), ping_interval=None, max_size=2**24) as connection:
        page = Page(connection, chat)
        await page.wait_for("status", phase="ready")
        yield page
        connection.transport.abort()  # a polite end would read everything that has not been read


async def talk(page: Page, until: float, served: Counter[int]) -> None:
    """Ask one question after another, and check each answer."""
    place: dict[str, str] = {"conversation_id": page.conversation} if page.conversation else {}
    number = 0
    while number == 0 or time.monotonic() < until:
        question = f"write chat{page.chat}x{number} {WORDS}"
        ref = await page.send("send", text=question, **place)
        accepted = await page.wait_for("accepted", ref=ref)
        finished = await page.wait_for("finished", message_id=accepted["reply_id"])
        if answer(question) not in finished["html"]:
            page.problems.append(f"not the answer to {question}: {finished}")
        page.conversation = accepted["conversation_id"]
        place = {"conversation_id": page.conversation, "parent_id": accepted["reply_id"]}
        served[page.chat] += 1
        number += 1


async def crowd(house: House, seconds: float) -> tuple[Counter[int], list[str]]:
    """How many replies each chat got, and what went wrong."""
    served: Counter[int] = Counter()
    until = time.monotonic() + seconds
    async with AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(opened(house, n % CHATS)) for n in range(SOCKETS)]
        talking, watching = pages[:CHATS], pages[CHATS:]
        await asyncio.gather(*(talk(page, 0, Counter()) for page in talking))
        for page in watching:
            page.conversation = talking[page.chat].conversation
            ref = await page.send("watch", conversation_id=page.conversation)
            await page.wait_for("snapshot", ref=ref)
        following = [asyncio.create_task(page.follow()) for page in watching]
        await asyncio.gather(*(talk(page, until, served) for page in talking))
        for task in following:
            task.cancel()
        await asyncio.wait(following)
        problems = [problem for page in pages for problem in page.problems]
        problems += [f"a watcher lost its socket: {task}" for task in following if not task.cancelled()]
    return served, problems


@pytest.mark.row(12)
def test_fifty_sockets_and_twenty_chats_for_a_minute(tmp_path: Path, long: bool) -> None:
    with House(tmp_path, step_s=0.01) as house:
        served, problems = asyncio.run(crowd(house, 600 if long else 60))
        assert house.end() == 0
        log = house.log
    assert not problems, problems[:5]
    assert len(served) == CHATS
    assert max(served.values()) <= 2 * min(served.values()), served
    assert "locked" not in log
    assert "Traceback" not in log
    for branch in branches(house.data_dir):
        for asked, replied in zip(branch[::2], branch[1::2], strict=True):
            assert replied.text == answer(asked.text)
