"""Servers for the tests of `web`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.house import SECRET, House, a_person
from tests.web.serving import Served


def echo(prompt: str) -> str:
    """The double's reply: what the user wrote last."""
    return prompt.rpartition("user\n")[2].strip()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts servers on one data folder; all are ended after the test."""
    started: list[Served] = []

    def start(reply: Callable[[str], str] = echo, **options: Any) -> Served:
        served = Served(tmp_path, reply, **options)
        started.append(served)
        return served

    yield start
    for served in started:
        served.close()


@pytest.fixture
def house(serve: Callable[..., Served]) -> Iterator[House]:
    """A shared server with Minji and Jun, and two conversations of Minji's."""
    go_on = threading.Semaphore(200)
    served = serve(lan=True, pace=go_on)
    minji, jun = a_person(served, "Minji"), a_person(served, "Jun")
    hers = served.ready_client(minji)
    accepted, _ = hers.say_and_wait(SECRET)
    while go_on.acquire(blocking=False):
        pass
    running = hers.say(f"{SECRET}, and more")
    hers.settle()
    yield House(
        served,
        minji,
        jun,
        accepted["conversation_id"],
        accepted["user_id"],
        accepted["reply_id"],
        running["reply_id"],
        running["conversation_id"],
        go_on,
    )
    go_on.release(500)
