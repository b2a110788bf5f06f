"""How soon what the worker writes is at those who watch, and how many may. For `ondol bench --web`.

A delay is from the end of the step that made a word to the frame at the client that shows it: sampling,
detokenizing, the way out of the worker, rendering and sending are all in it. The tokens of the first figures
come further apart than the server renders, so that none waits for the next rendering.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import quantiles

import psutil

from inference.bench.beats import WORD, Beats
from inference.errors import BenchFailed
from web.bench_sockets import ANSWER_S, Came, Crowd, Page

WATCHING = (1, 20, 200)
FAST_S = 0.01
FASTER = 8
HELD_CHATS = 20
HELD_EVERY_S = 0.05
PAUSE_S = 0.05
PERCENTS = (50, 95, 99)
LABELS = {
    **{
        f"reach_{sockets}_p{percent}_ms": f"from the worker to {sockets:,} watching, p{percent} (ms)"
        for sockets in WATCHING
        for percent in PERCENTS
    },
    "reach_20_fast_p95_ms": "  to 20 of a text that comes faster than it is drawn, p95 (ms)",
    "held_sockets": "sockets held with {chats} chats for {held_s:,} s without an error",
    "held_replies": "  replies that were written meanwhile",
    "idle_percent": "a server with a page open and nothing to do, of one core (%)",
}


@dataclass(frozen=True, slots=True)
class Reach:
    """How much is measured: words of a reply, seconds from one to the next; how many sockets are held for how
    long, with how long replies: the first number of them that meets no error; and how long nothing is done,
    after so long a pause that what was done before has ended.
    """

    words: int = 100
    every_s: float = 0.15
    held: tuple[int, ...] = (500, 200, 50)
    held_s: int = 60
    held_words: int = 60
    pause_s: float = 5.0
    idle_s: float = 60.0


def measure_reach(url: str, process_id: int, beats: Beats, reach: Reach) -> dict[str, float]:
    """All figures of the server at that address. Raises `BenchFailed`."""
    figures: dict[str, float] = {}
    for sockets in WATCHING:
        delays = _delays(url, beats, sockets, reach.every_s, reach.words)
        for percent in PERCENTS:
            figures[f"reach_{sockets}_p{percent}_ms"] = _percentile(delays, percent)
    fast = _delays(url, beats, 20, FAST_S, FASTER * reach.words)
    figures["reach_20_fast_p95_ms"] = _percentile(fast, 95)
    figures["held_sockets"] = figures["held_replies"] = 0
    for sockets in reach.held:
        replies = Hold(url, beats, sockets, reach.held_words).run(reach.held_s)
        if replies is not None:
            figures["held_sockets"], figures["held_replies"] = sockets, replies
            break
    figures["idle_percent"] = _idle(url, process_id, reach)
    return figures


def _idle(url: str, process_id: int, reach: Reach) -> float:
    """What its process computes while a page is open and nobody asks for anything, in percent of the time."""
    process = psutil.Process(process_id)
    with Crowd(url, 1) as crowd:
        crowd.wait_for(crowd.pages[0], "status", phase="ready")
        time.sleep(reach.pause_s)
        before, since = sum(process.cpu_times()[:2]), time.monotonic()
        time.sleep(reach.idle_s)
        computed: float = sum(process.cpu_times()[:2]) - before
    return round(100 * computed / (time.monotonic() - since), 2)


def _delays(url: str, beats: Beats, sockets: int, every_s: float, words: int) -> list[float]:
    """Of every word at every socket, in milliseconds."""
    with Crowd(url, sockets) as crowd:
        chat = _begin(crowd, beats, crowd.pages)
        beats.set(every_s, words)
        crowd.pages[0].send(type="send", id=_new_id(), text="Go on.", **chat)
        ends = time.monotonic() + beats.tokens * every_s
        while time.monotonic() < ends:
            crowd.note(PAUSE_S)
        frames = [crowd.read_until(page, "finished") for page in crowd.pages]
        made = beats.word_times()
        return [delay for came in frames for delay in _delays_at(came, made)]


def _delays_at(frames: list[Came], made: list[float]) -> list[float]:
    """At one socket, of words that were made at these times."""
    delays: list[float] = []
    frozen = 0
    for came in frames:
        if came.kind == "delta":
            frozen += sum(map(_words, came.frame.get("blocks", ())))
            shown = frozen + _words(came.frame.get("tail", ""))
        else:
            shown = len(made) if came.kind == "finished" else 0
        delays += [1_000 * (came.at - at) for at in made[len(delays) : shown]]
    if frames[-1].frame["finish_reason"] != "stop":
        raise BenchFailed("A reply that was to be measured broke off.")
    return delays


def _begin(crowd: Crowd, beats: Beats, pages: list[Page]) -> dict[str, str]:
    """A chat that all of them watch; where the next message of it belongs."""
    for page in pages:
        crowd.wait_for(page, "status", phase="ready")
    beats.set(0.0, 1)
    opening = {"system_prompt": "Be brief.", "params": {"temperature": 0.0, "repetition_penalty": 1.0}}
    pages[0].send(type="send", id=_new_id(), text="Hello.", opening=opening)
    accepted = crowd.wait_for(pages[0], "accepted").frame
    crowd.wait_for(pages[0], "finished", message_id=accepted["reply_id"])
    for page in pages:
        page.send(type="watch", id="watch", conversation_id=accepted["conversation_id"])
    for page in pages:
        crowd.wait_for(page, "snapshot", ref="watch")
    return {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}


class Hold:
    """So many sockets, divided among chats in which somebody writes all the time."""

    def __init__(self, url: str, beats: Beats, sockets: int, words: int) -> None:
        self._crowd = Crowd(url, sockets)
        self._beats = beats
        self._words = words
        pages = self._crowd.pages
        self._chats = [pages[number::HELD_CHATS] for number in range(min(HELD_CHATS, sockets))]
        self._conversations: list[str] = []
        self._asked: list[set[str]] = [set() for _ in self._chats]
        self._written: dict[Page, set[str]] = defaultdict(set)
        self._finished: dict[Page, set[str]] = defaultdict(set)
        self._seq: dict[tuple[Page, str], int] = {}
        self._errors = 0

    def run(self, seconds: float) -> int | None:
        """How many replies were written, each whole at every socket that watches it; None after any error."""
        with self._crowd:
            begun = [_begin(self._crowd, self._beats, pages) for pages in self._chats]
            self._conversations = [chat["conversation_id"] for chat in begun]
            self._beats.set(HELD_EVERY_S, self._words)
            for number, chat in enumerate(begun):
                self._ask(number, chat["parent_id"])
            ends = time.monotonic() + seconds
            while time.monotonic() < ends or (self._failures() and time.monotonic() < ends + ANSWER_S):
                self._crowd.note(PAUSE_S)
                for number, pages in enumerate(self._chats):
                    for page in pages:
                        for came in page.read():
                            self._take(number, page, came, goes_on=time.monotonic() < ends)
            return None if self._errors or self._failures() else sum(map(len, self._asked))

    def _ask(self, number: int, parent_id: str) -> None:
        place = {"conversation_id": self._conversations[number], "parent_id": parent_id}
        self._chats[number][0].send(type="send", id=_new_id(), text="Go on.", **place)

    def _take(self, number: int, page: Page, came: Came, *, goes_on: bool) -> None:
        """A frame at a page of that chat."""
        frame, asks = came.frame, page is self._chats[number][0]
        if came.kind == "error":
            self._errors += 1
        if came.kind == "accepted" and asks:
            self._asked[number].add(frame["reply_id"])
        if came.kind not in ("queued", "prefill", "delta", "finished"):
            return
        event = page, frame["message_id"]
        self._errors += frame["seq"] <= self._seq.get(event, 0)
        self._seq[event] = frame["seq"]
        self._written[page].add(frame["message_id"])
        if came.kind == "finished":
            self._finished[page].add(frame["message_id"])
            self._errors += frame["finish_reason"] != "stop" or _words(frame["html"]) != self._words
            if asks and goes_on:
                self._ask(number, frame["message_id"])

    def _failures(self) -> int:
        """Sockets that were closed, or did not see all of their chat's replies and no other's."""
        return sum(
            page.closed or not self._asked[number] == self._written[page] == self._finished[page]
            for number, pages in enumerate(self._chats)
            for page in pages
        )


def _words(html: str) -> int:
    return html.count(WORD.strip())


def _new_id() -> str:
    return f"bench-{time.monotonic_ns()}"


def _percentile(values: list[float], percent: int) -> float:
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 1)
