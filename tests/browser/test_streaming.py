"""A reply while it is being written, seen from one tab and from several."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Pace
from tests.web.hostile import HOSTILE
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

MULTI_BYTE = "온돌은 따뜻해요. 👩‍👩‍👧‍👦 é 🔥 한국어가 깨지지 않습니다. 끝"


def test_korean_and_emoji_are_never_shown_broken(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(30)
    chat = open_tab(serve(lambda prompt: MULTI_BYTE, pace=pace, window=4096).url)
    chat.send_message("안녕하세요 🙂")
    chat.record_states()
    for _ in range(len(MULTI_BYTE.encode())):
        pace.let(1)
        chat.page.wait_for_timeout(10)
    pace.let_all()
    chat.wait_for_reply()
    chat.assert_message_text("안녕하세요 🙂", MULTI_BYTE)
    states = chat.recorded_states()
    assert len(states) > 3
    assert not any("\ufffd" in state for state in states)


def test_a_reload_in_the_middle_loses_nothing(serve: Serve, open_tab: OpenTab) -> None:
    text = "one two three four five six seven eight nine ten " * 4
    pace = Pace(90)
    chat = open_tab(serve(lambda prompt: text, pace=pace, window=4096).url)
    chat.send_message("count")
    seen = chat.wait_for_text("three").text
    chat.reload()
    assert chat.wait_for_text("three").text.startswith(seen)
    expect(chat.stop_button).to_be_visible()
    pace.let_all()
    chat.wait_for_reply()
    chat.assert_message_text("count", text.strip())


def test_a_reply_survives_reloads_and_a_closed_tab_and_ends_on_a_second_device(
    serve: Serve, open_tab: OpenTab
) -> None:
    words = [f"w{number}" for number in range(80)]
    pace = Pace(60)
    chat = open_tab(serve(lambda prompt: " ".join(words), pace=pace, window=4096).url)
    chat.send_message("count")
    for word in ("w5", "w15", "w25"):
        seen = chat.wait_for_text(word).text
        chat.reload()
        assert chat.wait_for_text(word).text.startswith(seen)
        pace.let(40)
    place, browser = chat.page.url.removeprefix(chat.url), chat.page.context.browser
    assert browser is not None
    chat.page.close()
    pace.let(40)  # nobody looks
    device = browser.new_context()
    elsewhere = ChatPage(device.new_page(), chat.url).open(place)
    assert elsewhere.wait_for_text("w40").text.startswith(seen)
    pace.let_all()
    elsewhere.wait_for_reply()
    elsewhere.assert_message_text("count", " ".join(words))
    assert elsewhere.complaints() == []
    device.close()


def test_stop_keeps_the_partial_reply_and_marks_it(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(40)
    chat = open_tab(serve(lambda prompt: "abcdefghij " * 50, pace=pace, window=4096).url)
    chat.send_message("go")
    partial = chat.wait_for_text("abc").text
    chat.stop()
    reply = chat.wait_for_reply(meanwhile=pace.let)
    assert reply.text.startswith(partial)
    assert "stopped" in reply.line
    expect(chat.send_button).to_be_visible()


def test_a_second_tab_sees_what_is_sent_in_the_first_and_may_stop_it(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace()
    pace.let(1_000)
    served = serve(lambda prompt: "ab " * 300 if "long" in prompt else "short", pace=pace, window=4096)
    first = open_tab(served.url)
    first.send_message("hello")
    first.wait_for_reply()
    second = open_tab(served.url, first.page.url.removeprefix(served.url))
    second.assert_message_text("hello", "short")
    while pace.acquire(blocking=False):
        pass
    pace.let(30)
    first.send_message("a long one")
    second.wait_for_text("ab")
    second.stop()
    assert "stopped" in second.wait_for_reply(meanwhile=pace.let).line
    assert first.wait_for_reply() == second.wait_for_reply()


@pytest.mark.parametrize("part", range(4))
def test_hostile_markdown_runs_nothing_and_asks_for_nothing(
    serve: Serve, open_tab: OpenTab, part: int
) -> None:
    text = "\n\n".join(HOSTILE[part::4]) + "\n\nthe end"
    chat = open_tab(serve(lambda prompt: text, window=32_768).url)
    chat.page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    chat.send_message("go")
    chat.wait_for_text()
    before = list(chat.requests)
    chat.wait_for_reply()
    for link in chat.page.locator(".reply a").all():
        link.hover()
    own = f"{chat.url}/static/"  # icons, which the page's own markup names
    addresses = {request for request in chat.requests[len(before) :] if not request.startswith(own)}
    assert addresses == set()
    chat.reload()
    assert all(request.startswith(chat.url) for request in chat.requests)
    script = (
        "() => document.querySelectorAll('.reply :is(script, style, iframe, img, link, form, object)').length"
    )
    assert chat.page.evaluate(script) == 0
