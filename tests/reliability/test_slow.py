"""Clients that read slowly."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.reliability.house import House, answer
from tests.reliability.stored import replies
from tests.web.client import Client

SLOW = 1_024
CLIENTS = 10
QUESTION = "formulas 30"
"""Few tokens and much HTML, which comes again with each: more than the line brings, at any pace."""


class Slow(socket.socket):
    """A line that brings a kilobyte a second, and keeps little on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * SLOW)

    def recv(self, size: int, flags: int = 0) -> bytes:
        time.sleep(1)
        return super().recv(SLOW, flags)


def follow(client: Client, reply_id: str) -> tuple[list[int], str]:
    """Take everything up to the end of a reply: the events that were told, and the last frame's HTML."""
    finished = client.wait_for("finished", message_id=reply_id)
    told = [frame["seq"] for frame in client.frames if frame.get("message_id") == reply_id]
    return told, finished["html"]


@pytest.mark.row(11)
def test_slow_clients_get_fewer_frames_and_the_same_text(tmp_path: Path) -> None:
    with House(tmp_path, step_s=0.02) as house, ThreadPoolExecutor(CLIENTS) as pool:
        quick = house.client()
        first, _ = quick.say_and_wait("write first 3")
        conversation, reply = first["conversation_id"], first["reply_id"]
        opening = [pool.submit(house.client, Slow) for _ in range(CLIENTS)]
        slow = [opened.result() for opened in opening]
        for client in slow:
            client.send("watch", conversation_id=conversation, head_id=reply)
        list(pool.map(Client.settle, slow))
        second = quick.say(QUESTION, conversation_id=conversation, parent_id=reply)
        followed = [pool.submit(follow, client, second["reply_id"]) for client in slow]
        events, html = follow(quick, second["reply_id"])
        for following in followed:
            few, same = following.result()
            assert same == html
            assert few == sorted(set(few))
            assert few[-1] == events[-1]
            assert len(few) < 0.8 * len(events)
        assert house.end() == 0
        assert "took nothing" not in house.log
    assert replies(house.data_dir)[QUESTION].text == answer(QUESTION)
