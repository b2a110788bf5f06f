"""Clients that never read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import quantiles

import pytest

from storage.records import Status
from tests.reliability.deaf import Deaf
from tests.reliability.house import House, answer
from tests.reliability.stored import fill, replies
from tests.web.client import Client

MB = 1_000_000
OFFERED = 200 * MB
CLIENTS, TIMES = 5, 100


@contextmanager
def peak_of(house: House) -> Iterator[list[int]]:
    """What memory the server was seen to occupy; the last number is the most of it."""
    seen, ended = [house.rss], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            seen.append(max(seen[-1], house.rss))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        ended.set()
        watching.join()


def read_all(client: Client, conversation: str, times: int) -> int:
    """Ask for the conversation so often, and take it; how many bytes one answer has."""
    for _ in range(times):
        ref = client.send("watch", conversation_id=conversation)
        frame = client.wait_for("snapshot", ref=ref)
        client.frames.clear()
    return len(frame["html"])


def round_trips(house: House) -> float:
    """The 95th percentile of a frame's way there and back, in milliseconds, on sockets of their own: who has
    sent more than six hundred frames is slowed down.
    """
    took = []
    for client in [house.client() for _ in range(CLIENTS)]:
        for _ in range(TIMES):
            started = time.perf_counter()
            client.settle()
            took.append(1_000 * (time.perf_counter() - started))
        client.close()
    return quantiles(took, n=20, method="inclusive")[-1]


def wait_for_the_last(house: House, reading: Client, count: int) -> None:
    """Until so many replies have ended, and one who reads has been told of them."""
    while sum(reply.status is Status.DONE for reply in replies(house.data_dir).values()) < count:
        reading.settle()
    time.sleep(1)
    reading.settle()


@pytest.mark.row(10)
def test_clients_that_never_read_cost_nothing_and_are_dropped(tmp_path: Path, long: bool) -> None:
    count = 50 if long else 1
    conversation = fill(tmp_path / "data")
    engine, patience = {"max_waiting": count + 8}, {"unread_s": 10.0 if long else 1.0}
    with House(tmp_path, engine=engine, patience=patience) as house, ExitStack() as open_ones:
        talking, reading = house.client(), house.client()
        with peak_of(house) as with_reader, ThreadPoolExecutor() as beside_us:
            sizes = beside_us.submit(read_all, reading, conversation, 50)
            while not sizes.done():
                talking.say_and_wait("write warm 40")
                talking.settle()
        reading.close()
        size = sizes.result()
        deaf = [open_ones.enter_context(Deaf(house)) for _ in range(count)]
        with peak_of(house) as with_deaf:
            quiet = round_trips(house) if long else 0.0
            for number, client in enumerate(deaf):
                client.say("send", id=f"deaf-{number}", text=f"write deaf{number} 40")
            if long:
                wait_for_the_last(house, talking, count)
                beside = round_trips(house)
                print(
                    f"\np95 of another's round trip: {quiet:.2f} ms, {beside:.2f} ms beside {count} deaf ones"
                )
            for number in range(OFFERED // size):
                with suppress(ConnectionError):  # dropped already
                    deaf[number % count].say("watch", id=f"watch-{number}", conversation_id=conversation)
            _, finished = talking.say_and_wait("write talking 40")
            assert "talking.39" in finished["html"]
            assert all(client.is_dropped() for client in deaf)
        assert house.end() == 0
        told = house.log.count("took nothing")
    grown = with_deaf[-1] - with_reader[-1]
    print(f"a client that never reads: {grown / count / MB:.2f} MB")
    stored = replies(house.data_dir)
    for number in range(count):
        reply = stored[f"write deaf{number} 40"]
        assert (reply.status, reply.text) == (Status.DONE, answer(f"write deaf{number} 40"))
    assert told == count
    assert grown < 2 * MB * count


@pytest.mark.row(10)
def test_an_answer_that_is_not_taken_is_given_up(tmp_path: Path) -> None:
    conversation = fill(tmp_path / "data")
    with House(tmp_path, patience={"answer_s": 0.5}) as house, Deaf(house, f"/c/{conversation}") as deaf:
        assert deaf.is_dropped()
        assert house.end() == 0
        assert house.log.count("took nothing") == 1
        assert "Traceback" not in house.log
