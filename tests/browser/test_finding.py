"""Going back to what was said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from playwright.sync_api import Page, expect

from storage.bulk import Whole, keep_all
from storage.conversations import utc_now
from storage.records import ConversationRecord, MessageRecord, Status
from tests.browser.chat_page import ChatPage
from tests.browser.ime import ChromiumIme
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

IN_VIEW = """(message) => {
  const { top, bottom } = message.getBoundingClientRect();
  const view = document.getElementById('scroller').getBoundingClientRect();
  return top < view.bottom && bottom > view.top;
}"""


def a_long_conversation(messages: int) -> Whole:
    """With something to find in its tenth message, and in another branch that begins there."""
    at = utc_now() - timedelta(days=3)
    said = [
        MessageRecord(
            f"m{number}",
            "long",
            f"m{number - 1}" if number else None,
            None,
            "assistant" if number % 2 else "user",
            "따뜻한 **바닥**에 앉았다" if number == 9 else f"said {number}",
            Status.DONE,
            at + timedelta(seconds=number),
            finished_at=at + timedelta(seconds=number) if number % 2 else None,
        )
        for number in range(messages)
    ]
    other = MessageRecord(
        "other", "long", "m9", None, "user", "A needle elsewhere", Status.DONE, at - timedelta(hours=1)
    )
    chat = ConversationRecord("long", "A long talk", "", said[-1].id, None, at, at)
    return Whole(chat, [*said, other])


def marked(page: Page) -> str:
    expect(page.locator(".message.at")).to_have_count(1)
    page.wait_for_function(f"({IN_VIEW})(document.querySelector('.message.at'))")
    return page.locator(".message.at .body").inner_text()


def test_a_korean_word_of_two_syllables_is_found_and_jumped_to(serve: Serve, open_tab: OpenTab) -> None:
    served = serve()
    keep_all(served.database, [a_long_conversation(400)])
    chat = open_tab(served.url)
    chat.page.keyboard.press("Control+k")
    expect(chat.search_field).to_be_focused()
    ime = ChromiumIme(chat.page.context.new_cdp_session(chat.page))
    for composed in ("ㅂ", "바", "바ㄷ", "바다", "바닥"):  # and it stays composing, as Hangul does
        ime.compose(composed)
    expect(chat.results()).to_have_count(1)
    expect(chat.results().locator("mark")).to_have_text("바닥")
    chat.results().click()
    assert marked(chat.page) == "따뜻한 바닥에 앉았다"
    chat.wait_until_connected()
    expect(chat.page.locator(".message")).to_have_count(400)  # the rest has come meanwhile
    assert [m.text for m in chat.messages()][8:11] == ["said 8", "따뜻한 바닥에 앉았다", "said 10"]
    assert marked(chat.page) == "따뜻한 바닥에 앉았다"


def test_a_message_of_another_branch_is_shown_with_its_branch(serve: Serve, open_tab: OpenTab) -> None:
    served = serve()
    keep_all(served.database, [a_long_conversation(400)])
    chat = open_tab(served.url, "/search?q=needle")
    chat.page.locator(".found-message").click()
    chat.wait_until_connected()
    assert marked(chat.page) == "A needle elsewhere"
    expect(chat.page.locator(".message")).to_have_count(11)
    chat.send_message("and on from here")
    chat.wait_for_reply()
    assert [m.text for m in chat.messages()][9:12] == [
        "따뜻한 바닥에 앉았다",
        "A needle elsewhere",
        "and on from here",
    ]


def test_enter_while_a_syllable_is_composed_shows_all_results_once(serve: Serve, open_tab: OpenTab) -> None:
    served = serve()
    keep_all(served.database, [a_long_conversation(20)])
    chat = open_tab(served.url)
    chat.page.keyboard.press("Control+k")
    ime = ChromiumIme(chat.page.context.new_cdp_session(chat.page))
    ime.compose("바닥")
    expect(chat.results()).to_have_count(1)
    ime.enter("바닥", again=True)
    chat.page.wait_for_url("**/search?q=*")
    expect(chat.page.locator("#q")).to_have_value("바닥")
    chat.page.get_by_label("To", exact=True).fill("2020-01-01")
    chat.page.get_by_role("button", name="Search").click()
    expect(chat.page.get_by_text("Nothing was found.")).to_be_visible()
