"""A socket as a page has it, and the HTML that a page makes of its frames."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from websockets.sync.client import ClientConnection

WAIT_S = 20


class Client:
    """One socket, in the words of the protocol. It waits `wait_s` seconds for a frame."""

    wait_s: float = WAIT_S

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.frames: list[dict[str, Any]] = []
        self._ids = iter(range(1_000_000))
        self._name = uuid4().hex  # an address in memory comes again, and so would its commands

    def send(self, kind: str, **fields: Any) -> str:
        """Send a command; its id."""
        fields.setdefault("id", f"{self._name}-{next(self._ids)}")
        self.connection.send(json.dumps({"type": kind, **fields}))
        return str(fields["id"])

    def receive(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self.connection.recv(timeout=self.wait_s))
        self.frames.append(frame)
        return frame

    def wait_for(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next frame of that kind whose fields have these values."""
        deadline = time.monotonic() + self.wait_s
        while time.monotonic() < deadline:
            frame = self.receive()
            if frame["type"] == kind and all(frame.get(k) == v for k, v in fields.items()):
                return frame
        raise AssertionError(f"no {kind} frame with {fields}; got {self.frames[-5:]}")

    def wait_for_list(self, *, showing: str = "", hiding: str = "\0") -> None:
        """Wait for a conversation list with one text and without another."""
        while True:
            html = self.wait_for("conversations")["html"]
            if showing in html and hiding not in html:
                return

    def settle(self) -> None:
        """Wait until everything sent so far was carried out: commands are, one after another."""
        self.wait_for("counted", ref=self.send("count", text=""))

    def say(self, text: str, **fields: Any) -> dict[str, Any]:
        """Send a message; its `accepted`."""
        ref = self.send("send", text=text, **fields)
        return self.wait_for("accepted", ref=ref)

    def say_and_wait(self, text: str, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Send a message; its `accepted` and `finished`."""
        accepted = self.say(text, **fields)
        return accepted, self.wait_for("finished", message_id=accepted["reply_id"])

    def close(self) -> None:
        self.connection.close()


@dataclass
class Drawing:
    """A reply's HTML as a page builds it from one delta after another."""

    blocks: list[str] = field(default_factory=list)
    tail: str = ""

    def take(self, delta: dict[str, Any]) -> None:
        self.blocks += delta.get("blocks", ())
        self.tail = delta.get("tail", self.tail)
        if "code" in delta:
            head, closing, foot = self.tail.rpartition("</code>")
            self.tail = head + delta["code"] + closing + foot


def shown(frames: list[dict[str, Any]], reply_id: str) -> str:
    """The reply's HTML as a page would have built it from these frames."""
    drawing = Drawing()
    for frame in frames:
        if frame.get("message_id") == reply_id and frame["type"] == "delta":
            drawing.take(frame)
    return "".join(drawing.blocks) + drawing.tail
