"""What an import costs, and what it costs those who chat meanwhile. Part of `ondol bench --web`."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from statistics import quantiles
from typing import Any
from urllib.parse import urlsplit

import msgspec

from inference.errors import BenchFailed

IMPORTED = 2_000
TURNS = 5
IDLE = 200
PAUSE_S = 0.25
WORDS = ("warm", "floor", "stone", "kitchen", "fire", "smoke", "house", "bowl", "night", "온돌", "아랫목")
LABELS = {
    "import_s": "importing {imported:,} conversations of ten messages (s)",
    "import_frame_delay_p95_ms": "  another socket's frame later by, p95 (ms)",
    "import_frame_delay_max_ms": "  at most later by (ms)",
}


def measure_import(url: str, round_trip: Callable[[], float], conversations: int) -> dict[str, float]:
    """Import as a page does, while frames go back and forth. `round_trip` takes one there and back, and gives
    the milliseconds.
    """
    file = chatgpt_export(conversations)
    idle, beside, took = [round_trip() for _ in range(IDLE)], list[float](), list[float]()
    importing = threading.Thread(target=lambda: took.append(_import(url, file, conversations)))
    importing.start()
    while importing.is_alive():
        beside.append(round_trip())
    if not took:
        raise BenchFailed("The import did not come to its end.")
    usual = _p95(idle)
    return {
        "import_s": round(took[0], 1),
        "import_frame_delay_p95_ms": round(_p95(beside) - usual, 1),
        "import_frame_delay_max_ms": round(max(beside) - usual, 1),
    }


def _import(url: str, file: bytes, conversations: int) -> float:
    """The seconds from the first byte sent to the last conversation stored."""
    started = time.monotonic()
    job = _ask(url, "POST", "/api/import", file)
    while job["state"] == "running":
        time.sleep(PAUSE_S)
        job = _ask(url, "GET", f"/api/import/{job['id']}?after={conversations}")
    if job["state"] != "done" or job["done"] != conversations:
        raise BenchFailed(f"The import ended as {job['state']} after {job['done']:,} conversations.")
    return time.monotonic() - started


def chatgpt_export(conversations: int, seed: int = 0) -> bytes:
    """A `conversations.json` of so many conversations of ten messages."""
    chance = random.Random(seed)
    return msgspec.json.encode([_conversation(number, chance) for number in range(conversations)])


def _conversation(number: int, chance: random.Random) -> dict[str, Any]:
    begun = 1.7e9 + 1_000 * number
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
    parent = "root"
    for place in range(2 * TURNS):
        role = "assistant" if place % 2 else "user"
        words = " ".join(chance.choices(WORDS, k=80 if place % 2 else 12))
        mapping[f"m{place}"] = {
            "id": f"m{place}",
            "parent": parent,
            "message": {
                "author": {"role": role},
                "create_time": begun + 10 * place,
                "content": {"content_type": "text", "parts": [f"{words} {number}.{place}"]},
                "metadata": {"model_slug": "gpt-4o"} if place % 2 else {},
            },
        }
        parent = f"m{place}"
    return {
        "title": f"Bench {number}",
        "conversation_id": f"bench-{number}",
        "create_time": begun,
        "update_time": begun + 100,
        "current_node": parent,
        "mapping": mapping,
    }


def _ask(url: str, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, path, body, {"Origin": url})
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    if response.status >= 400:
        raise BenchFailed(f"{path} was answered with status {response.status}.")
    decoded: dict[str, Any] = msgspec.json.decode(answer)
    return decoded


def _p95(values: list[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else max(values, default=0.0)
