"""What the server costs while nobody asks it anything."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
from websockets.sync.client import connect

from tests.web.client import WAIT_S, Client

WATCHED_S = 6
WAKE_UPS = 12
"""The looks at the connections need four; a ping of the page two, and what has just ended some."""
CPU_SHARE = 0.02
"""Measured on a quiet machine it is less than 0.005; tests beside this one make every wake-up dearer."""


def wake_ups(process: psutil.Process) -> dict[int, int]:
    """How often each thread has waited for something and gone on."""
    tasks = Path(f"/proc/{process.pid}/task")
    found = {}
    for task in tasks.iterdir():
        switches = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)
        assert switches is not None
        found[int(task.name)] = int(switches[1])
    return found


def cpu_s(process: psutil.Process) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))


def wait_until_at_rest(process: psutil.Process) -> None:
    """Until what has just ended is put away, or for as long as one waits for anything."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        before = sum(wake_ups(process).values())
        time.sleep(1)
        if sum(wake_ups(process).values()) <= before + 1:
            return


def test_with_a_page_open_and_nothing_to_do_no_thread_keeps_waking_up(tmp_path: Path) -> None:
    """Counts, and computing time of the process itself: a busy machine changes neither much."""
    command = [sys.executable, "-m", "tests.reliability.idle_server", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().split()[3]
            with connect(f"ws{url.removeprefix('http')}/ws", origin=url, max_size=2**24) as connection:  # type: ignore[arg-type]
                page = Client(connection)
                page.wait_for("status", phase="ready")
                page.say_and_wait("hello")
                page.settle()
                process = psutil.Process(server.pid)
                wait_until_at_rest(process)
                before, computed, since = wake_ups(process), cpu_s(process), time.monotonic()
                time.sleep(WATCHED_S)
                computed, watched_s = cpu_s(process) - computed, time.monotonic() - since
                woken = {thread: count - before.get(thread, 0) for thread, count in wake_ups(process).items()}
        finally:
            server.terminate()
            server.wait(WAIT_S)
    assert sum(woken.values()) <= WAKE_UPS, woken
    assert computed <= CPU_SHARE * watched_s
