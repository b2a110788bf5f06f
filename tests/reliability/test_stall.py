"""Somebody holds the interpreter for seconds, and no thread of the server runs."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.reliability.house import House
from tests.web.client import Client

PATIENCE = {"ping_s": 0.5, "pong_s": 2.0}
SOCKETS = 20


class Late(socket.socket):
    """A line on which a pong is always on its way for half a second, also when the stall begins."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        received = super().recv(size, flags)
        time.sleep(0.5)
        return received


@pytest.mark.row(18)
def test_sockets_survive_a_stall_and_the_log_tells_of_it(tmp_path: Path, long: bool) -> None:
    stalls = [5, 30] * 10 if long else [5]
    with House(tmp_path, patience=PATIENCE) as house, ThreadPoolExecutor(SOCKETS) as pool:
        talking, *others = house.client(), *pool.map(house.client, [Late] * SOCKETS)
        for number, seconds in enumerate(stalls, start=1):
            _, finished = talking.say_and_wait(f"stall {seconds} {number}")
            assert finished["finish_reason"] == "stop"
            list(pool.map(Client.settle, others))  # a socket that was closed raises
            told = [line for line in house.log.splitlines() if "stood still" in line]
            assert len(told) == number
            assert float(told[-1].partition("for ")[2].split()[0]) > seconds - 2
        assert house.end() == 0
