"""Connections that break at any byte: a page that comes back goes on where it was."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import WebSocketException

from inference.backends.base import Logits
from storage.conversations import Conversations
from tests.inference.doubles import END, START, VOCAB_SIZE, ScriptedBackend, TokenKV
from tests.reliability.proxy import Break, Line, Proxy, Way
from tests.reliability.tab import articles
from tests.web.client import Client, Drawing
from tests.web.serving import Served

Serve = Callable[..., Served]
Frame = dict[str, Any]

PAGES = 8
STEPS = 6
"""So many bytes are written for each connection; the double writes one a step."""
MOST_BYTES = 2_000
"""A connection breaks within so many."""
IDLE_S = 0.3
"""A page that is told nothing for so long comes back too; the reply goes on only with the next connection."""
HOW: tuple[Break, ...] = ("reset", "close", "half_close")
PARAGRAPH = "온돌은 *따뜻해요* 🔥 and `code` stays warm.\n\n```py\nx = 'floor'\n```\n\n- one\n- **two**\n\n"


class OneReply(ScriptedBackend):
    """Says the same whatever it is asked, and works it out only once: its text is long."""

    _planned: tuple[int, ...] = ()

    def _next(self, kv: TokenKV) -> Logits:
        self._planned = self._planned or tuple(self._tokenizer.encode_text(self._reply("")))
        said = kv.tokens[::-1].index(START) - len(self._opening)
        logits = np.zeros(VOCAB_SIZE, dtype=np.float32)
        logits[self._planned[said] if said < len(self._planned) else END] = 100
        return logits


class Page:
    """A page with one running reply, which it knows from its first event on."""

    def __init__(self, accepted: Frame) -> None:
        self.reply_id: str = accepted["reply_id"]
        self.conversation_id: str = accepted["conversation_id"]
        self.seq = 0
        self.seen: dict[int, bytes] = {}
        """A digest of what was shown after each event: whole texts would take gigabytes in the long run."""
        self.last = ""
        self._drawing = Drawing()
        self._blocks = hashlib.blake2b()

    def follow(self, client: Client) -> None:
        """Go on until the reply is there to its end, or the connection breaks."""
        place = {"conversation_id": self.conversation_id, "head_id": self.reply_id}
        client.send("watch", **place, after_seq=self.seq, running=True)
        while not self.last:
            self.take(json.loads(client.connection.recv(timeout=IDLE_S)))

    def take(self, frame: Frame) -> None:
        if frame["type"] == "snapshot":
            (self.last,) = (a.text for a in articles(frame["html"]) if a.id == self.reply_id)
        if frame.get("message_id") != self.reply_id:
            return
        assert frame["seq"] > self.seq, f"{frame} came after event {self.seq}"
        self.seq = frame["seq"]
        if frame["type"] == "finished":
            (self.last,) = (a.text for a in articles(frame["html"]))
        elif frame["type"] == "delta":
            self._drawing.take(frame)
            self._blocks.update("".join(frame.get("blocks", ())).encode())
            all_of_it = self._blocks.copy()
            all_of_it.update(self._drawing.tail.encode())
            self.seen[self.seq] = all_of_it.digest()


@pytest.mark.row(13)
def test_pages_whose_connections_break_at_any_byte_show_what_one_shows_that_never_lost_it(
    serve: Serve, long: bool
) -> None:
    cuts = 20_000 if long else 500
    more_than_enough = 3 * cuts * STEPS
    text = (PARAGRAPH * (more_than_enough // len(PARAGRAPH.encode()))).strip()
    pace = threading.Semaphore(200)
    served = serve(lambda prompt: text, pace=pace, window=2**22, kind=OneReply)
    whole = served.ready_client()
    accepted = whole.say("go", opening={"system_prompt": "", "params": {"max_tokens": 2**19}})

    def line(number: int) -> Line:
        pace.release(STEPS)
        if proxy.broken >= cuts:
            return Line()
        random = Random(number)
        return Line(down=Way(cut_after=random.randrange(1, MOST_BYTES), breaks=random.choice(HOW)))

    def live(page: Page) -> None:
        while not page.last:
            with contextlib.suppress(OSError, EOFError, WebSocketException):
                client = served.client(through=proxy.port)
                try:
                    page.follow(client)
                finally:
                    client.close()

    proxy = Proxy(served.port, line)
    pages = [Page(accepted) for _ in range(PAGES)]
    uncut = Page(accepted)
    with ThreadPoolExecutor(PAGES) as pool:
        watching = [pool.submit(live, page) for page in pages]
        while proxy.broken < cuts or not all(uncut.seen.keys() & page.seen.copy() for page in pages):
            uncut.take(whole.receive())
        whole.send("stop", message_id=accepted["reply_id"])
        pace.release()
        while not uncut.last:
            uncut.take(whole.receive())
        for each in watching:
            each.result()
    proxy.close()
    assert proxy.broken >= cuts
    stored = Conversations(served.database).message(accepted["reply_id"])
    assert stored.finish_reason == "abort"
    assert text.startswith(stored.text)
    for page in pages:
        assert page.last == uncut.last
        both = page.seen.keys() & uncut.seen.keys()
        assert all(page.seen[seq] == uncut.seen[seq] for seq in both)
