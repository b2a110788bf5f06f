"""Two thousand hostile texts in a real browser, under the real policy, through real frames."""

from __future__ import annotations

import random
import socket
import threading
import unicodedata
from collections.abc import Callable, Iterator

import pytest

from tests.browser.chat_page import ChatPage
from tests.browser.feeding import Feed, pending, streamed
from tests.web.hostile import BOMBS, LATEX_BOMBS
from tests.web.hostile_grammar import Hostile, hostile_texts
from tests.web.serving import Served
from web.protocol import ServerFrame

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

BATCH = 250
EVERY_CHARACTER = 50  # one text in so many is split there
WATCH = """
window.calls = 0;
window.canary = window.alert = () => { window.calls += 1; };
window.reports = [];
addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => window.reports.push([violatedDirective, blockedURI]));
"""  # noqa: E501
FOUND = """() => {
  const inside = [...document.querySelectorAll('.transcript *')];
  const acts = 'script, style, link, meta, base, iframe, img, object, embed, form, video, audio, source, image, template';
  return {
    calls: window.calls,
    reports: window.reports,
    acting: inside.filter((element) => element.matches(acts)).map((element) => element.outerHTML),
    handlers: inside.flatMap((element) => [...element.attributes].map(({ name }) => name).filter((name) =>
      /^(on|style|srcdoc)/.test(name) || (name === 'id' && element.id !== `m${element.dataset.messageId}`))),
    links: [...document.querySelectorAll('.transcript a')].map((link) => link.protocol).filter((each) => !/^(https?|mailto|):$/.test(each)),
    inwards: [...document.querySelectorAll('.transcript a')].filter((link) => link.host === location.host).map((link) => link.href),
  };
}"""  # noqa: E501
NOTHING = {"calls": 0, "reports": [], "acting": [], "handlers": [], "links": [], "inwards": []}
TEXTS = """() => Object.fromEntries([...document.querySelectorAll('.reply')]
  .map((reply) => [reply.dataset.messageId, reply.querySelector('.body').innerText]))"""
LAY_OUT_ALL = (
    """() => document.styleSheets[0].insertRule('.message { content-visibility: visible !important; }')"""
)
BOMB_CHARS = 4_000  # as many as a reply has by default when it is cut off at its 1,024 tokens
TOO_LONG_MS = 30_000
BATCH_MS = 180_000  # on a machine that is busy with much else
ANSWERS = """() => new Promise((resolve) =>
  requestAnimationFrame(() => requestAnimationFrame(() => resolve('two frames'))))"""
DONE = "() => document.querySelector('.reply:last-child').dataset.status === 'done'"


class Trap:
    """A server that nobody may ask for anything."""

    def __init__(self) -> None:
        self.asked = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.asked += 1
            connection.close()


@pytest.fixture
def trap() -> Iterator[Trap]:
    trap = Trap()
    yield trap
    trap.close()


@pytest.mark.row(24)
def test_two_thousand_hostile_texts_run_nothing_ask_for_nothing_and_stay_readable(
    serve: Serve, open_tab: OpenTab, trap: Trap, long: bool
) -> None:
    served = serve()
    conversation_id = served.ready_client().say("hello")["conversation_id"]
    chat = open_tab(served.url)
    moved: list[str] = []
    feed = Feed(chat.page)
    chat.page.add_init_script(WATCH)
    chat.page.on("framenavigated", lambda frame: moved.append(frame.url))
    chat.page.on("popup", lambda popup: moved.append(popup.url))
    texts = hostile_texts(20_000 if long else 2_000, host=trap.host)
    for start in range(0, len(texts), BATCH):
        chat.open(f"/c/{conversation_id}")
        moved.clear()
        chat.requests.clear()
        batch = {f"r{start + place}": hostile for place, hostile in enumerate(texts[start : start + BATCH])}
        show(chat, feed, conversation_id, batch)
        assert chat.page.evaluate(FOUND) == NOTHING
        chat.page.evaluate(LAY_OUT_ALL)
        shown = chat.page.evaluate(TEXTS)
        for reply_id, hostile in batch.items():
            assert unseen(hostile, shown[reply_id]) == [], (hostile, shown[reply_id])
        assert [address for address in chat.requests if not address.startswith(f"{served.url}/static/")] == []
        assert moved == []
    assert trap.asked == 0


def bombs() -> list[str]:
    """A hundred texts that cost a parser or a page the most."""
    marks = [
        f"{before}{atom}{after}" for atom in BOMBS for before, after in (("", ""), ("", "x"), ("x", "\n"))
    ]
    formulas = [f"{fence}{latex}{fence}\n\n" for latex in LATEX_BOMBS for fence in ("$", "$$")]
    return [unit * (BOMB_CHARS // len(unit) or 1) for unit in (*marks, *formulas)]


@pytest.mark.row(25)
def test_a_hundred_bombs_are_shown_and_the_tab_goes_on_answering(serve: Serve, open_tab: OpenTab) -> None:
    served = serve()
    conversation_id = served.ready_client().say("hello")["conversation_id"]
    chat = open_tab(served.url)
    feed = Feed(chat.page)
    texts = bombs()
    assert len(texts) >= 100
    for start in range(0, len(texts), 10):
        chat.open(f"/c/{conversation_id}")
        chat.page.evaluate(LAY_OUT_ALL)
        for number, bomb in enumerate(texts[start : start + 10], start):
            feed.put(
                pending(conversation_id, [f"b{number}"]), *streamed(f"b{number}", bomb, [len(bomb) // 2])
            )
            chat.page.wait_for_function(DONE, timeout=TOO_LONG_MS)
            assert chat.page.evaluate(ANSWERS) == "two frames"
            written = next((char for char in bomb if char.isalnum()), "")
            assert written in unicodedata.normalize("NFKC", chat.reply().text), bomb[:20]


def unseen(hostile: Hostile, shown: str) -> list[str]:
    """The words that a reader does not see. Formulas have letters of their own, each in its own element."""
    plain = "".join(unicodedata.normalize("NFKC", shown).split())
    return [word for word in hostile.words if word not in plain]


def show(chat: ChatPage, feed: Feed, conversation_id: str, batch: dict[str, Hostile]) -> None:
    """Let every text of the batch be written and finished on the page."""
    chance = random.Random(len(batch))
    frames: list[ServerFrame] = [pending(conversation_id, batch)]
    for number, (reply_id, hostile) in enumerate(batch.items()):
        length = len(hostile.text)
        split = number % EVERY_CHARACTER == 0
        cuts = range(1, length) if split else sorted(chance.choices(range(1, length), k=2))
        frames += streamed(reply_id, hostile.text, cuts)
    feed.put(*frames)
    chat.page.wait_for_function(DONE, timeout=BATCH_MS)
