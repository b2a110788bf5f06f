"""A thousand messages, and replies that take long to scroll through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.feeding import Feed, finished, pending, written
from tests.web.serving import Served
from web.bench_web import Sizes, fill, long_markdown

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

PLACE = """() => {
  const messages = [...document.querySelectorAll('.message')];
  const first = messages.find((each) => each.getBoundingClientRect().bottom > 60);
  return [first.dataset.messageId, Math.round(first.getBoundingClientRect().top / 4)];
}"""
IDS = "() => [...document.querySelectorAll('.message')].map((message) => message.dataset.messageId)"
COPIED = """async (message) => {
  const { messageText } = await import(document.querySelector('script[type=module]').src.replace('app.js', 'copy.js'));
  return messageText(message);
}"""  # noqa: E501
UP = "() => { scroller.scrollTop -= 1500; }"


def test_a_long_conversation_opens_at_its_end_and_the_rest_follows(
    serve: Serve, open_tab: OpenTab, tmp_path: Path
) -> None:
    conversation, _ = fill(tmp_path / "data", Sizes(messages=150, rendered=0))
    chat = open_tab(serve().url)
    chat.page.route("**/earlier?*", lambda route: route.abort())
    chat.expect_complaint("net::ERR_FAILED")
    chat.open(f"/c/{conversation}")
    assert len(chat.messages()) == 60
    expect(chat.page.locator(".reply").last).to_be_in_viewport()
    expect(chat.page.locator("#context-words")).to_be_visible()
    chat.page.unroute("**/earlier?*")
    chat.page.reload()
    expect(chat.page.locator(".message")).to_have_count(150)
    expect(chat.page.locator(".earlier")).to_have_count(0)
    assert len(set(chat.page.evaluate(IDS))) == 150
    assert [message.mine for message in chat.messages()] == [True, False] * 75
    expect(chat.page.locator(".reply").last).to_be_in_viewport()


def test_earlier_messages_come_without_moving_what_is_read(
    serve: Serve, open_tab: OpenTab, tmp_path: Path
) -> None:
    conversation, _ = fill(tmp_path / "data", Sizes(messages=150, rendered=0))
    chat = open_tab(serve().url)
    chat.page.route("**/earlier?*", lambda route: route.abort())
    chat.expect_complaint("net::ERR_FAILED")
    chat.open(f"/c/{conversation}")
    chat.page.evaluate(UP)
    chat.page.wait_for_timeout(300)
    place = chat.page.evaluate(PLACE)
    chat.page.unroute("**/earlier?*")
    chat.page.get_by_role("button", name="Earlier messages").dispatch_event("click")
    expect(chat.page.locator(".message")).to_have_count(150)
    assert chat.page.evaluate(PLACE) == place


def test_the_end_of_a_long_reply_leaves_the_reader_in_place(serve: Serve, open_tab: OpenTab) -> None:
    served = serve()
    conversation = served.ready_client().say("hello")["conversation_id"]
    chat = open_tab(served.url)
    feed = Feed(chat.page)
    chat.open(f"/c/{conversation}")
    text = long_markdown(40_000, 3)
    frames = written("r", text, range(500, len(text), 500))
    feed.put(pending(conversation, ["r"]))
    for frame in frames:
        feed.put(frame)
    chat.page.wait_for_timeout(300)
    chat.page.mouse.move(700, 300)
    chat.page.mouse.wheel(0, -6_000)
    chat.page.wait_for_timeout(500)
    line = "() => document.elementFromPoint(700, 300).closest('.body *').textContent.slice(0, 80)"
    read = chat.page.evaluate(line)
    feed.put(finished("r", text, len(frames) + 1))
    chat.page.wait_for_timeout(300)
    assert chat.page.evaluate(line) == read
    copied = chat.page.locator(".reply").evaluate(COPIED)
    assert all(f"Part {number}" in copied for number in _parts(text))


def _parts(text: str) -> list[str]:
    return [line.removeprefix("## Part ") for line in text.splitlines() if line.startswith("## Part ")]
