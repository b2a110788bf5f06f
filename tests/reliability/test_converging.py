"""Several pages act in one conversation at once: in the end all show what one shows that is opened then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from storage.conversations import Conversations
from tests.reliability.gate import WAIT_S, Gate
from tests.reliability.in_process import InProcess
from tests.reliability.tab import Article, Tab
from web.presenter import Presenter

PAGES = 4
ACTIONS = 12
ACTS = (
    "send",
    "edit",
    "regenerate",
    "switch",
    "delete_branch",
    "restore_branch",
    "come_back",
    "open",
)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def start(gate: Gate) -> Iterator[Callable[[], InProcess]]:
    """Starts an app on an empty folder; the one before it is ended."""
    with ExitStack() as running:

        def start() -> InProcess:
            running.close()
            folder = Path(running.enter_context(TemporaryDirectory()))
            app = InProcess(folder, lambda prompt: "warm floor", pace=gate)
            running.callback(app.close, gate.open)
            app.ready_client()
            return app

        yield start


@pytest.mark.row(12)
def test_pages_that_act_at_once_end_with_the_same_conversation(
    start: Callable[[], InProcess], long: bool
) -> None:
    for number in range(400 if long else 5):
        act_at_once(start(), Random(number))


@pytest.mark.row(12)
def test_a_page_that_is_opened_while_another_edits_shows_the_edit(
    start: Callable[[], InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start()
    first, opened = Tab(app.client()), Tab(app.client())
    accepted = first.answer("send", text="is it warm")
    first.until_finished(accepted["reply_id"])
    held = Held(monkeypatch, Presenter, "transcript")
    with ThreadPoolExecutor() as pool:
        opening = pool.submit(opened.open, accepted["conversation_id"])
        assert held.begun.wait(WAIT_S)
        place = {"conversation_id": accepted["conversation_id"], "message_id": accepted["user_id"]}
        editing = pool.submit(first.answer, "edit", text="is it cold", **place)
        wait([editing], timeout=0.5)  # it would be told by now, were it not for the page that is opened
        held.go_on.set()
        opening.result()
        editing.result()
    assert [text for _, _, text in what_is_shown(opened)] == ["is it cold", "warm floor"]


@pytest.mark.row(12)
def test_what_a_page_did_that_is_gone_is_told_to_the_others(
    start: Callable[[], InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start()
    gone, stays = Tab(app.client()), Tab(app.client())
    accepted = gone.answer("send", text="is it warm")
    gone.until_finished(accepted["reply_id"])
    stays.open(accepted["conversation_id"])
    held = Held(monkeypatch, Conversations, "begin_turn")
    place = {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}
    gone.client.send("send", text="and now", **place)
    assert held.begun.wait(WAIT_S)
    with ThreadPoolExecutor() as pool:
        closing = pool.submit(gone.client.close)
        while not closing.done():  # it notices with the next frame that it has to send
            app.announce_status()
            wait([closing], timeout=0.01)
        held.go_on.set()
    deadline = time.monotonic() + WAIT_S
    while len(stays.shown) < 4 and time.monotonic() < deadline:
        stays.settle()
    assert [text for _, _, text in what_is_shown(stays)] == [
        "is it warm",
        "warm floor",
        "and now",
        "warm floor",
    ]


@pytest.mark.row(12)
def test_a_page_that_is_opened_while_a_reply_ends_shows_its_end(
    start: Callable[[], InProcess], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start()
    gate.shut()
    gate.let(4)
    first, opened = Tab(app.client()), Tab(app.client())
    accepted = first.answer("send", text="is it warm")
    held = Held(monkeypatch, Conversations, "path")
    with ThreadPoolExecutor() as pool:
        opening = pool.submit(opened.open, accepted["conversation_id"])
        assert held.begun.wait(WAIT_S)
        gate.open()
        first.until_finished(accepted["reply_id"])
        held.go_on.set()
        opening.result()
    assert [text for _, _, text in what_is_shown(opened)] == ["is it warm", "warm floor"]


class Held:
    """Lets the next call of a method wait, after it has done what it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        method = getattr(owner, name)

        def wait_first(*args: Any) -> Any:
            done = method(*args)
            if not self.begun.is_set():
                self.begun.set()
                assert self.go_on.wait(WAIT_S)
            return done

        monkeypatch.setattr(owner, name, wait_first)


def act_at_once(app: InProcess, chance: Random) -> None:
    first = Tab(app.client())
    accepted = first.answer("send", text="is it warm")
    tabs = [Tab(app.client()) for _ in range(PAGES)]
    seeds = [chance.random() for _ in tabs]

    def live(tab: Tab, seed: float) -> None:
        each = Random(seed)
        tab.open(accepted["conversation_id"])
        for _ in range(ACTIONS):
            act(app, tab, each)

    with ThreadPoolExecutor(PAGES) as pool:
        list(pool.map(live, tabs, seeds))
    late = Tab(app.client())
    late.open(accepted["conversation_id"])
    settled = what_is_shown(late)
    for tab in (first, *tabs):
        assert what_is_shown(tab) == settled


def what_is_shown(tab: Tab) -> list[tuple[str, str, str]]:
    """The messages on a page, once every reply has ended there."""
    tab.settle()
    for article in tab.shown:
        tab.until_finished(article.id)
    tab.settle()
    return [(article.id, article.status, article.text) for article in tab.shown]


def act(app: InProcess, tab: Tab, chance: Random) -> None:
    """Do something with what is shown; it may be refused, since others do something too."""
    shown: list[Article] = tab.shown
    place = {"conversation_id": tab.conversation_id}
    about = {**place, "message_id": chance.choice(shown).id if shown else "none"}
    match chance.choice(ACTS):
        case "send":
            tab.answer("send", text="and now", parent_id=shown[-1].id if shown else None, **place)
        case "edit":
            tab.answer("edit", text="is it cold", **about)
        case "come_back":
            tab.client.close()
            tab.reconnect(app.client())
        case "open":
            tab.open(tab.conversation_id)
        case kind:
            tab.answer(kind, **about)
