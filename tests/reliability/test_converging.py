"""Several pages act in one conversation at once: in the end each shows what a page that is opened then shows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from tests.reliability.gate import Gate
from tests.reliability.in_process import InProcess
from tests.reliability.tab import Article, Tab

PAGES = 4
ACTIONS = 12
ACTS = (
    "send",
    "send",
    "edit",
    "regenerate",
    "switch",
    "delete_branch",
    "restore_branch",
    "come_back",
    "open",
)


@pytest.mark.row(12)
def test_pages_that_act_at_once_end_with_the_same_conversation(long: bool) -> None:
    for number in range(400 if long else 100):
        with TemporaryDirectory() as folder:
            gate = Gate()
            app = InProcess(Path(folder), lambda prompt: "warm floor", pace=gate)
            try:
                act_at_once(app, Random(number))
            finally:
                app.close(gate.open)


def act_at_once(app: InProcess, chance: Random) -> None:
    app.ready_client()
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
