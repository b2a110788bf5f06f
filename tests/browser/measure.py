"""`python -m tests.browser.measure`: what the page costs a slow machine. Prints; asserts nothing.

Main-thread time is the renderer's own CPU time from Chromium's trace, under a CPU slowed down four times.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.browser import launch
from tests.browser.feeding import Feed, finished, pending, written
from tests.web.conftest import echo
from tests.web.serving import Served
from web.bench_web import Sizes, fill, long_markdown
from web.protocol import encode

SLOWER = 4
REPLY_TOKENS = 20_000
TOKEN_CHARS = 4
ADDED = 100
TOKENS_PER_DELTA = (1, 10, 14, 25)
"""The server sends at most ten deltas a second: 25 tokens in each are a reply of 250 tokens/s. Beside a
browser on the same two cores the default model writes about 140.
"""
GAP_MS = 60
LOADS = 7
TRACED = ("devtools.timeline", "disabled-by-default-devtools.timeline", "blink.user_timing", "toplevel")
PUT_ONE_BY_ONE = """async ([frames, gap]) => {
  for (const data of frames) {
    performance.mark('delta');
    window.fed.dispatchEvent(new MessageEvent('message', { data }));
    await new Promise((resolve) => setTimeout(resolve, gap));
  }
  performance.mark('delta');
}"""
WATCH_SHIFTS = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const { value } of list.getEntries()) window.shift += value;
}).observe({ type: 'layout-shift', buffered: true });
"""
PAINTS = """() => {
  const [navigation] = performance.getEntriesByType('navigation');
  const paints = Object.fromEntries(performance.getEntriesByType('paint').map(({ name, startTime }) => [name, startTime]));
  return { answer: navigation.responseStart, first: paints['first-paint'], content: paints['first-contentful-paint'] };
}"""  # noqa: E501


def main() -> None:
    """Measure everything and print one JSON object."""
    figures: dict[str, float] = {}
    with sync_playwright() as playwright, _served() as (served, conversation_id):
        browser = launch(playwright.chromium)
        for end in (False, True):
            name = "end" if end else "start"
            for tokens in TOKENS_PER_DELTA:
                costs = _costs_of_deltas(browser, served, conversation_id, end, tokens)
                kind = f"token_of_{tokens}_in_a_delta_at_{name}"
                figures[f"{kind}_p95_ms"] = _p95(costs) / tokens
                figures[f"{kind}_median_ms"] = median(costs) / tokens
        for width in (1280, 360):
            figures[f"shift_while_streaming_{width}"] = _shift(browser, served, conversation_id, width)
        opened = [_load(browser, f"{served.url}/c/{conversation_id}", SLOWER) for _ in range(LOADS)]
        figures["open_first_content_ms"] = max(each["content"] for each in opened)
        for slower in (1, SLOWER):
            loads = [_load(browser, served.url, slower) for _ in range(LOADS)]
            figures[f"first_paint_after_answer_{slower}x_ms"] = max(e["first"] - e["answer"] for e in loads)
        browser.close()
    json.dump({key: round(value, 3) for key, value in figures.items()}, sys.stdout, indent=2)
    print()


@contextmanager
def _served() -> Iterator[tuple[Served, str]]:
    with tempfile.TemporaryDirectory() as folder:
        conversation_id, _ = fill(Path(folder) / "data", Sizes(rendered=0))
        served = Served(Path(folder), echo, window=8_192)
        try:
            yield served, conversation_id
        finally:
            served.close()


def _costs_of_deltas(
    browser: Browser, served: Served, conversation_id: str, end: bool, tokens: int
) -> list[float]:
    """Main-thread time for each delta of so many tokens, in ms, at the start or the end of a long reply."""
    text = long_markdown(REPLY_TOKENS * TOKEN_CHARS, 1)
    step = tokens * TOKEN_CHARS
    before = len(text) - ADDED * step if end else 0
    cuts = range(before + step, before + ADDED * step, step)
    frames = written("r", text[: before + ADDED * step], [before, *cuts] if before else [*cuts])
    with _fed_page(browser, served, conversation_id) as (page, feed):
        feed.put(pending(conversation_id, ["r"]), *frames[: 1 if before else 0])
        page.wait_for_timeout(1_500)
        _slow_down(page, SLOWER)
        page.wait_for_timeout(500)
        browser.start_tracing(page=page, categories=list(TRACED))
        page.evaluate(PUT_ONE_BY_ONE, [[encode(frame) for frame in frames[1 if before else 0 :]], GAP_MS])
        return _between_marks(json.loads(browser.stop_tracing())["traceEvents"])


def _between_marks(events: Sequence[dict[str, Any]]) -> list[float]:
    marks = [event for event in events if event["name"] == "delta" and "user_timing" in event["cat"]]
    thread = (marks[0]["pid"], marks[0]["tid"])
    times = [mark["ts"] for mark in marks]
    costs = [0.0] * (len(times) - 1)
    for event in events:
        if event["name"] == "RunTask" and (event["pid"], event["tid"]) == thread and "tdur" in event:
            place = next((i for i, time in enumerate(times[1:]) if event["ts"] < time), None)
            if place is not None and event["ts"] + event["dur"] >= times[place]:
                costs[place] += event["tdur"] / 1_000
    return costs


def _shift(browser: Browser, served: Served, conversation_id: str, width: int) -> float:
    """The layout shift, by the browser's own count, from the empty reply to the finished one."""
    text = long_markdown(4_000, 2)
    frames = written("r", text, list(range(40, len(text), 40)))
    frames.append(finished("r", text, len(frames) + 1))
    with _fed_page(browser, served, conversation_id, width) as (page, feed):
        feed.put(pending(conversation_id, ["r"]))
        page.wait_for_timeout(500)
        page.evaluate(WATCH_SHIFTS)
        page.evaluate("() => { window.shift = 0; }")
        page.evaluate(PUT_ONE_BY_ONE, [[encode(frame) for frame in frames], 30])
        page.wait_for_timeout(300)
        return float(page.evaluate("() => window.shift"))


def _load(browser: Browser, url: str, slower: int) -> dict[str, float]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    _slow_down(page, slower)
    page.goto(url)
    page.wait_for_timeout(700)
    paints: dict[str, float] = page.evaluate(PAINTS)
    context.close()
    return paints


@contextmanager
def _fed_page(
    browser: Browser, served: Served, conversation_id: str, width: int = 1280
) -> Iterator[tuple[Page, Feed]]:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    feed = Feed(page)
    page.goto(f"{served.url}/c/{conversation_id}")
    page.locator("#connection").wait_for(state="hidden")
    page.wait_for_timeout(1_000)
    yield page, feed
    context.close()


def _slow_down(page: Page, times: int) -> None:
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": times})


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1]


if __name__ == "__main__":
    main()
