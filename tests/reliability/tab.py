"""What a page shows: frames applied as `static/js/transcript.js` and `chat.js` apply them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

from tests.web.client import Client

Frame = dict[str, Any]
UNFINISHED = ("pending", "running")


@dataclass(frozen=True, slots=True)
class Article:
    """One message on the page; `text` without what surrounds it."""

    id: str
    status: str
    seq: int
    text: str = ""

    @property
    def running(self) -> bool:
        return self.status in UNFINISHED


class _Articles(HTMLParser):
    """The messages in some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[Article] = []
        self._depth = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "article":
            self.found.append(
                Article(values["data-message-id"], values["data-status"], int(values["data-seq"]))
            )
        elif tag == "div" and (self._depth or {"body", "tail"} & set(values.get("class", "").split())):
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._depth:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if self._depth:
            last = self.found[-1]
            self.found[-1] = replace(last, text=last.text + data)


def articles(html: str) -> list[Article]:
    """The messages in a piece of a transcript, with the text of each."""
    return [replace(each, text=each.text.strip()) for each in _Articles(html).found]


class Tab:
    """A page that shows one conversation, or a new chat."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.conversation_id: str | None = None
        self.shown: list[Article] = []
        self.deleted = False
        self._asked = False
        self._watching = ""

    @property
    def ids(self) -> list[str]:
        return [article.id for article in self.shown]

    def open(self, conversation_id: str | None) -> None:
        """Go to another conversation, and have all of it sent; None: to a new chat."""
        self.conversation_id, self.shown, self.deleted = conversation_id, [], False
        if conversation_id is not None:
            self._watch()
            self.settle()

    def reconnect(self, client: Client) -> None:
        """The socket was lost, and here is another: go on where the page is."""
        self.client, self.deleted = client, False
        if self.conversation_id is not None:
            self._watch()
        self.settle()

    def answer(self, kind: str, **fields: Any) -> Frame:
        """Send a command; the frame that answers it, after everything that came with it is shown."""
        ref = self.client.send(kind, **fields)
        while True:
            frame = self._next()
            if frame.get("ref") == ref:
                self.settle()
                return frame

    def settle(self) -> None:
        """Take everything that was told by now."""
        while True:
            self._asked = False
            ref = self.client.send("count", text="")
            while self._next().get("ref") != ref:
                pass
            if not self._asked:
                return

    def until_finished(self, reply_id: str) -> None:
        """Take what comes until a reply that is followed is shown at its end."""
        while any(article.id == reply_id and article.running for article in self.shown):
            self._next()

    def _next(self) -> Frame:
        frame = self.client.receive()
        self.client.frames.clear()
        self.take(frame)
        return frame

    def take(self, frame: Frame) -> None:
        """Show what a frame says."""
        if "message_id" in frame and "seq" in frame:
            self._reply_event(frame)
        elif frame.get("conversation_id", self.conversation_id) != self.conversation_id:
            if frame["type"] == "accepted" and self.conversation_id is None:
                self.conversation_id = frame["conversation_id"]
                self._accepted(frame)
                self._watch()
        elif frame["type"] == "accepted":
            self._accepted(frame)
        elif frame["type"] == "switched":
            self._put_after(frame["kept_id"], articles(frame["html"]))
        elif frame["type"] == "snapshot":
            self.shown = articles(frame["html"])
        elif frame["type"] == "conversation_deleted":
            self.deleted = frame["deleted"]
            if not self.deleted:
                self._watch()
        elif frame["type"] == "error" and frame["ref"] == self._watching:
            self.deleted = frame["code"] == "not_found"  # for good

    def _accepted(self, frame: Frame) -> None:
        (reply,) = articles(frame["reply_html"])
        if any(article.id == reply.id and article.seq >= reply.seq for article in self.shown):
            return
        asked = articles(frame["user_html"]) if frame["user_html"] else []
        self._put_after(frame["parent_id"], [*asked, reply])

    def _put_after(self, message_id: str | None, parts: list[Article]) -> None:
        if message_id is not None and message_id not in self.ids:
            self._watch()
            return
        kept = 0 if message_id is None else self.ids.index(message_id) + 1
        self.shown[kept:] = parts

    def _reply_event(self, frame: Frame) -> None:
        for place, article in enumerate(self.shown):
            if article.id != frame["message_id"] or not article.running:
                continue
            if frame["type"] == "finished":
                (self.shown[place],) = articles(frame["html"])
                return
            assert frame["seq"] > article.seq, f"{frame} came after event {article.seq}"
            status = "pending" if frame["type"] == "queued" else "running"
            self.shown[place] = replace(article, seq=frame["seq"], status=status)

    def _watch(self) -> None:
        """Ask for everything, or for what is missing after the last message that is shown."""
        head = self.shown[-1] if self.shown else None
        self._asked = True
        self._watching = self.client.send(
            "watch",
            conversation_id=self.conversation_id,
            head_id=head.id if head else None,
            after_seq=head.seq if head else 0,
            running=head.running if head else False,
        )
