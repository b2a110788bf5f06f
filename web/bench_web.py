"""`ondol bench --web`: what the web layer costs, without a browser and without a model's weights.

The server runs in a process of its own, as people run it; this one asks it, and waits.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles

import msgspec
from rich.console import Console
from rich.table import Table
from websockets import Origin
from websockets.sync.client import ClientConnection, connect

from inference.bench.beats import Beats, load_beats
from inference.model_loader import Prepare
from storage.conversations import Conversations
from storage.database import Database
from storage.records import NewTurn, ReplyEnd, Status
from web import bench_reach, bench_search, bench_transfer
from web.bench_pages import first_load, get
from web.bench_server import SPAWNING, START_S, no_weights, server
from web.languages import load_languages
from web.settings import Settings

WORDS = ("warm", "floor", "stone", "kitchen", "fire", "smoke", "house", "bowl", "night", "온돌", "아랫목")
LONG_CHARS = 200_000
MESSAGES = 1_000
OPENED = 20
RENDERED = 8
PAUSE_S = 0.002
LABELS = {
    "first_load_bytes": "first load, uncompressed, in the longest language (bytes)",
    "open_cold_ms": "first opening of {messages:,} messages (ms)",
    "open_p95_ms": "opening {messages:,} messages, p95 of {opened} (ms)",
    "idle_frame_p95_ms": "a frame's way there and back, p95 (ms)",
    "beside_rendering_p95_ms": "  while {long:,} characters are rendered, p95 (ms)",
    "frame_delay_p95_ms": "  later by (ms)",
    "frame_delay_max_ms": "  at most later by (ms)",
    "render_ms": "opening a page with {long:,} new characters (ms)",
    **bench_search.LABELS,
    **bench_transfer.LABELS,
    **bench_reach.LABELS,
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: messages of the long conversation, characters of a long one, how often, messages
    to search, conversations of an import, and what is written to those who watch.
    """

    messages: int = MESSAGES
    long_chars: int = LONG_CHARS
    opened: int = OPENED
    rendered: int = RENDERED
    found: int = bench_search.MESSAGES
    imported: int = bench_transfer.IMPORTED
    reach: bench_reach.Reach = bench_reach.Reach()


def run_bench_web(
    settings: Settings, *, as_json: bool, sizes: Sizes | None = None, prepare: Prepare | None = None
) -> None:
    """Measure, and print a table or one JSON object. Raises `InferenceError`.

    The last two arguments are for doubles.
    """
    sizes = sizes or Sizes()
    with tempfile.TemporaryDirectory(prefix="ondol-bench-") as folder:
        data_dir = Path(folder) / "filled"
        with server(settings, data_dir, prepare, no_weights) as (url, _):
            languages = [language.code for language in load_languages()]
            first: dict[str, int | float] = {
                "first_load_bytes": max(first_load(url, language) for language in languages)
            }
            figures = {**first, **_measure(url, *fill(data_dir, sizes), sizes)}
            bench_search.fill_many(data_dir, sizes.found)
            figures |= bench_search.measure_finding(url, sizes.opened, _timed, _p95)
        beats = Beats(SPAWNING)
        watched = Path(folder) / "watched"
        with server(settings, watched, prepare, partial(load_beats, beats)) as (url, process_id):
            figures |= bench_reach.measure_reach(url, process_id, beats, sizes.reach)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(figures), indent=2).decode())
    else:
        print_table(figures, sizes)


def print_table(figures: Mapping[str, float], sizes: Sizes) -> None:
    """What was measured, in words."""
    table = Table("", "")
    for key, value in figures.items():
        label = LABELS[key].format(
            messages=sizes.messages,
            opened=sizes.opened,
            long=sizes.long_chars,
            found=sizes.found,
            imported=sizes.imported,
            chats=bench_reach.HELD_CHATS,
            held_s=sizes.reach.held_s,
        )
        table.add_row(label, f"{value:,}" if isinstance(value, int) else f"{value:,.1f}")
    Console().print(table)


def long_markdown(chars: int, seed: int) -> str:
    """A reply with everything that replies have, of about this length; none is like another."""
    chance, parts, length = random.Random(seed), [], 0
    while length < chars:
        number = chance.randrange(10**6)
        words = " ".join(chance.choices(WORDS, k=60))
        parts += [
            f"## Part {number}",
            f"{words}, **{number}** and *{words[:20]}*, with `code_{number}` and $x_{{{number}}}^2 + 1$.",
            f"- {words[:60]}\n- {words[60:120]}\n  - {number}",
            f"```python\ndef f_{number}(value):\n    return value * {number}  # {words[:30]}\n```",
            f"| a | b |\n|---|--:|\n| {words[:30]} | {number} |",
        ]
        length = sum(map(len, parts)) + 2 * len(parts)
    return "\n\n".join(parts)


def fill(data_dir: Path, sizes: Sizes) -> tuple[str, list[str]]:
    """A conversation of many messages, and several of one long message each."""
    database = Database.open(data_dir)
    try:
        conversations = Conversations(database)
        long_conversation = parent = None
        for turn in range(sizes.messages // 2):
            long_conversation, parent = _add(
                conversations, long_conversation, parent, long_markdown(600, turn)
            )
        assert long_conversation is not None
        texts = (long_markdown(sizes.long_chars, -1 - number) for number in range(sizes.rendered))
        return long_conversation, [_add(conversations, None, None, text)[0] for text in texts]
    finally:
        database.close()


def _add(
    conversations: Conversations, conversation: str | None, parent: str | None, reply: str
) -> tuple[str, str]:
    """Store one turn; its conversation and its reply."""
    turn = NewTurn(
        client_id=f"bench-{time.monotonic_ns()}",
        conversation_id=conversation,
        parent_id=parent,
        text="Tell me about the warm floor, please.",
        title="Bench",
        system_prompt="",
        cut_id=None,
        model="none",
        params={},
    )
    started = conversations.begin_turn(turn)
    conversations.finish(started.reply.id, ReplyEnd(reply, (), Status.DONE, "stop"))
    return started.conversation.id, started.reply.id


def _measure(url: str, long_conversation: str, long_messages: list[str], sizes: Sizes) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    openings = [_timed(lambda: get(f"{url}/c/{long_conversation}")) for _ in range(sizes.opened + 1)]
    figures["open_cold_ms"] = openings[0]
    figures["open_p95_ms"] = _p95(openings[1:])
    with _socket(url) as socket:
        idle = [_round_trip(socket) for _ in range(100)]
        beside, renderings = [], []
        for conversation in long_messages:
            rendering = threading.Thread(
                target=lambda: renderings.append(_timed(lambda: get(f"{url}/c/{conversation}")))  # noqa: B023
            )
            rendering.start()
            while rendering.is_alive():
                beside.append(_round_trip(socket))
        imported = bench_transfer.measure_import(url, lambda: _round_trip(socket), sizes.imported)
    figures["idle_frame_p95_ms"] = _p95(idle)
    figures["beside_rendering_p95_ms"] = _p95(beside)
    figures["frame_delay_p95_ms"] = _p95(beside) - _p95(idle)
    figures["frame_delay_max_ms"] = max(beside) - _p95(idle)
    figures["render_ms"] = _p95(renderings)
    return {key: round(value, 1) for key, value in figures.items()} | imported


def _round_trip(socket: ClientConnection) -> float:
    time.sleep(PAUSE_S)
    return _timed(lambda: _ask(socket))


def _ask(socket: ClientConnection) -> None:
    socket.send('{"type":"count","id":"bench","text":""}')
    socket.recv()


def _timed(work: Callable[[], object]) -> float:
    """How long it takes, in milliseconds."""
    started = time.perf_counter()
    work()
    return 1_000 * (time.perf_counter() - started)


def _p95(values: list[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


@contextmanager
def _socket(url: str) -> Iterator[ClientConnection]:
    """A socket of a page, once the model has been given up and nothing else is to come."""
    with connect(f"ws{url.removeprefix('http')}/ws", origin=Origin(url)) as socket:
        while msgspec.json.decode(socket.recv(START_S)).get("phase") != "failed":
            pass
        yield socket
