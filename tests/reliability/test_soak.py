"""A house that goes on for a long time: what the server occupies must not grow."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.reliability.house import PATIENCE_S, House, answer
from tests.reliability.stored import fill
from tests.storage.exports import chatgpt_simple

MB = 1_000_000
RSS_BYTES = 5 * MB
SHORT_RSS_BYTES = 8 * MB
"""In two minutes not all of what is kept for speed is there yet."""
FEW = 6
"""Files and threads that come and go: those of the pool, of the database's connections, and of requests."""
BOUNDED = 160
"""Objects of a type that may come all the same: the telemetry's ring fills, cancelled timers wait."""
COME_AND_GO = {"ReferenceType", "frozenset"}
"""Weak references are counted in bursts; whatever they refer to is counted by itself. SQLAlchemy keeps a
frozenset with each part of a statement once it has worked something out of it; the parts are counted by
themselves. What made some 320 of them come late, twice, is not known.
"""
LOOKS = 5
WARM = 6
PRIMED = 8
QUESTIONS = 40
IMPORTED = 5


@dataclass(frozen=True)
class Sample:
    """What a server occupied at a moment of rest, after `done` chores."""

    rss: int
    files: int
    threads: int
    objects: dict[str, int]
    done: int


def growth(before: Sample, after: Sample, rss_bytes: int = RSS_BYTES) -> list[str]:
    """What has grown that must not, in words."""
    told = []
    if after.rss - before.rss >= rss_bytes:
        told.append(f"memory grew by {(after.rss - before.rss) / MB:.1f} MB")
    for name, old, new in (
        ("files", before.files, after.files),
        ("threads", before.threads, after.threads),
    ):
        if new > old + FEW:
            told.append(f"{name} went from {old} to {new}")
    for kind in after.objects.keys() - COME_AND_GO:
        old, new = before.objects.get(kind, 0), after.objects[kind]
        if new - old > BOUNDED:
            told.append(f"{kind} went from {old} to {new}")
    return told


class Soak:
    """Everything that people do, over and over, each chore on a thread of its own."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._working = threading.Event()
        self._ended = threading.Event()
        self._resting: list[threading.Event] = []
        self.done = 0
        self.failed: list[str] = []
        self._numbers = itertools.count()
        self._threads = [threading.Thread(target=self._repeat, args=(chore,)) for chore in CHORES]
        for thread in self._threads:
            thread.start()

    def work(self, seconds: float) -> Sample:
        """Go on for so long, rest, and look."""
        self._working.set()
        self._ended.wait(seconds)
        self._working.clear()
        self._wait_until_at_rest()
        seen = self._house.seen
        objects = self._objects_that_stay()
        return Sample(self._house.rss, seen.num_fds(), seen.num_threads(), objects, self.done)

    def _objects_that_stay(self) -> dict[str, int]:
        """Of each type as many as there are in every one of some looks: what was deleted a minute ago goes
        for good meanwhile, and each statement is made of many objects.
        """
        looks = []
        for _ in range(LOOKS):
            looks.append(self._house.objects())
            time.sleep(0.2)
        return {kind: min(look.get(kind, 0) for look in looks) for kind in looks[0]}

    def end(self) -> None:
        self._ended.set()
        self._working.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _wait_until_at_rest(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self._resting) < len(CHORES):
            assert time.monotonic() < deadline, self.failed
            time.sleep(0.05)

    def _repeat(self, chore: Callable[[House, int], None]) -> None:
        resting = threading.Event()
        while not self._ended.is_set():
            self._resting.append(resting)
            self._working.wait()
            self._resting.remove(resting)
            try:
                chore(self._house, next(self._numbers))
            except Exception as error:
                self.failed.append(f"{chore.__name__}: {error!r}")
            self.done += 1


def post(house: House, path: str, body: Any = None) -> httpx2.Response:
    return httpx2.post(house.url + path, json=body, headers={"Origin": house.url}, timeout=PATIENCE_S)


def get(house: House, path: str) -> httpx2.Response:
    response = httpx2.get(house.url + path, timeout=PATIENCE_S)
    assert response.status_code == 200, path
    return response


def chat_and_delete(house: House, number: int) -> None:
    """A chat of two turns, of which nothing is kept in the end."""
    client = house.client()
    question = f"write soak{number % QUESTIONS} 12"
    first, _ = client.say_and_wait(question)
    place = {"conversation_id": first["conversation_id"], "parent_id": first["reply_id"]}
    _, finished = client.say_and_wait(question, **place)
    assert answer(question) in finished["html"]
    assert post(house, f"/api/conversations/{first['conversation_id']}/delete").status_code == 204
    client.close()


def stop_and_leave(house: House, number: int) -> None:
    """A socket that goes in the middle of what it asked for."""
    client = house.client()
    accepted = client.say(f"write gone{number % QUESTIONS} 40")
    client.wait_for("delta")
    client.send("stop", message_id=accepted["reply_id"])
    client.close()


def come_and_go(house: House, number: int) -> None:
    """A page, its socket, and away again."""
    get(house, "/")
    client = house.client()
    client.settle()
    client.close()


def look_around(house: House, number: int) -> None:
    """The pages that only tell."""
    for path in ("/status", "/search?q=soak", "/search/quick?q=warm", "/learn", "/metrics", "/transfer"):
        get(house, path)
    for conversation in house.kept:
        get(house, f"/c/{conversation}")


def import_some(house: House, number: int) -> None:
    """Chats of another program; it takes a process, so not all the time."""
    chats = [chatgpt_simple(IMPORTED * number + n, "Why?", "warm floor") for n in range(IMPORTED)]
    response = httpx2.post(
        f"{house.url}/api/import", content=json.dumps(chats).encode(), headers={"Origin": house.url}
    )
    assert response.status_code == 202
    while get(house, f"/api/import/{response.json()['id']}").json()["state"] == "running":
        time.sleep(0.2)
    get(house, "/api/export")
    time.sleep(5)


CHORES = (chat_and_delete, chat_and_delete, stop_and_leave, come_and_go, look_around, import_some)


@pytest.mark.row(38)
def test_what_the_server_occupies_does_not_grow(tmp_path: Path, long: bool) -> None:
    first, rest = (300, 1_500) if long else (62, 50)  # what is deleted goes for good after a minute
    # More than each connection of the database keeps of it in memory, read by each: this too is warm then.
    kept = [fill(tmp_path / "data", f"kept{number}") for number in range(WARM)]
    with House(tmp_path, step_s=0.005, engine={"prefix_cache_bytes": 100_000}) as house:
        house.kept = kept
        for number in range(PRIMED):
            look_around(house, number)
            get(house, "/api/export")
        soak = Soak(house)
        try:
            before = soak.work(first)
            after = soak.work(rest)
        finally:
            soak.end()
        assert house.end() == 0
        log = house.log
    print(f"{after.done - before.done} chores; {(after.rss - before.rss) / MB:.1f} MB")
    assert not soak.failed, soak.failed[:3]
    assert not growth(before, after, RSS_BYTES if long else SHORT_RSS_BYTES)
    assert "Traceback" not in log


def test_growth_sees_a_leak_of_each_kind() -> None:
    before = Sample(100 * MB, 20, 10, {"dict": 1_000}, 0)
    same = Sample(101 * MB, 22, 11, {"dict": 1_010, "Watcher": 1}, 1_000)
    assert growth(before, same) == []
    for leak in (
        Sample(105 * MB, 20, 10, {"dict": 1_000}, 1_000),
        Sample(100 * MB, 40, 10, {"dict": 1_000}, 1_000),
        Sample(100 * MB, 20, 30, {"dict": 1_000}, 1_000),
        Sample(100 * MB, 20, 10, {"dict": 1_000, "Watcher": 300}, 1_000),
    ):
        assert len(growth(before, leak)) == 1
