"""Writing a message: Enter, drafts, and messages that are too long."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser, expect

from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Pace
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

ENTER_AT_ONCE = """(field, text) => {
  field.value = text;
  field.dispatchEvent(new InputEvent('input', { bubbles: true }));
  const enter = { key: 'Enter', keyCode: 13, bubbles: true, cancelable: true };
  field.dispatchEvent(new KeyboardEvent('keydown', enter));
}"""


def test_a_message_and_its_reply_are_shown(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    chat.send_message("hello there")
    chat.wait_for_reply()
    chat.assert_message_text("hello there", "hello there")


def test_enter_sends_and_shift_enter_breaks_the_line(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    chat.write("one")
    chat.press("Shift+Enter")
    chat.composer.press_sequentially("two")
    expect(chat.composer).to_have_value("one\ntwo")
    expect(chat.send_button).to_be_enabled()
    chat.press("Enter")
    chat.wait_for_reply()
    assert chat.messages()[0].text == "one\ntwo"


def test_nothing_but_spaces_is_not_sent(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url).wait_until_ready()
    chat.write("  \n ")
    chat.press("Enter")
    expect(chat.send_button).to_be_disabled()
    assert chat.messages() == []


def test_on_a_touch_screen_enter_breaks_the_line_and_send_sends(serve: Serve, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    chat = ChatPage(context.new_page(), serve().url).open().wait_until_ready()
    chat.write("one")
    chat.press("Enter")
    chat.composer.press_sequentially("two")
    expect(chat.composer).to_have_value("one\ntwo")
    chat.send_button.tap()
    chat.wait_for_reply()
    assert chat.messages()[0].text == "one\ntwo"
    assert chat.complaints() == []
    context.close()


def test_the_keyboard_alone_is_enough(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(20)
    chat = open_tab(serve(lambda prompt: "abcdefghij " * 50, pace=pace, window=4096).url).wait_until_ready()
    expect(chat.composer).to_be_focused()
    chat.page.get_by_role("heading", level=1).click()
    expect(chat.composer).not_to_be_focused()
    for _ in range(12):
        chat.page.keyboard.press("Tab")
        if chat.composer.evaluate("(field) => field === document.activeElement"):
            break
    expect(chat.composer).to_be_focused()
    chat.page.keyboard.type("go on")
    chat.page.keyboard.press("Enter")
    chat.wait_for_text("abc")
    chat.page.keyboard.press("Escape")
    assert "stopped" in chat.wait_for_reply(meanwhile=pace.let).line
    expect(chat.composer).to_be_focused()


def test_a_draft_survives_a_reload_and_stays_with_its_conversation(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    chat.write("for a new chat")
    chat.reload()
    expect(chat.composer).to_have_value("for a new chat")
    chat.send_message("hello")
    chat.wait_for_reply()
    chat.write("for this chat")
    chat.new_chat()
    expect(chat.composer).to_have_value("")
    chat.open_conversation("hello")
    expect(chat.composer).to_have_value("for this chat")


def test_a_message_that_cannot_fit_is_told_before_it_is_sent(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve(window=256).url).wait_until_ready()
    chat.write("x" * 400)
    expect(chat.page.locator("#context-words")).to_contain_text("of 256")
    expect(chat.page.locator("#context-note")).to_contain_text("Shorten by")
    expect(chat.send_button).to_be_disabled()
    chat.press("Enter")
    expect(chat.composer).to_have_value("x" * 400)
    chat.write("short enough")
    expect(chat.page.locator("#context-note")).to_be_hidden()
    expect(chat.send_button).to_be_enabled()


def test_a_message_sent_before_it_was_counted_comes_back_with_both_numbers(
    serve: Serve, open_tab: OpenTab
) -> None:
    chat = open_tab(serve(window=256).url).wait_until_ready()
    chat.composer.evaluate(ENTER_AT_ONCE, "x" * 400)
    note = chat.page.get_by_role("alert")
    expect(note).to_contain_text("256")
    expect(note).to_contain_text("4")
    expect(chat.composer).to_have_value("x" * 400)
    assert chat.messages() == []
    assert chat.conversations() == []


def test_a_line_shows_where_the_model_begins_to_read(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    for letter in "abcd":
        chat.send_message(letter * 80)
        chat.wait_for_reply()
    line = chat.page.get_by_text("the model reads from here")
    expect(line).to_be_visible()
    above = chat.page.locator(".message:has(~ .cut)")
    assert 0 < above.count() < 8
    chat.reload()
    expect(line).to_be_visible()


def test_when_the_queue_is_full_the_message_stays_in_the_box(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(1)  # for the system prompt
    url = serve(pace=pace, engine={"max_sequences": 1, "max_waiting": 1}).url
    running, waiting, chat = (open_tab(url).wait_until_ready() for _ in range(3))
    running.send_message("the first")
    expect(running.page.locator(".waiting-words")).to_contain_text("reading")
    waiting.send_message("the second")
    expect(waiting.page.locator(".waiting-words")).to_contain_text("next in line")
    chat.write("one too many")
    chat.press("Enter")
    expect(chat.page.locator("#note")).to_contain_text("1 of 1 places in the queue are taken")
    expect(chat.composer).to_have_value("one too many")
    assert chat.messages() == []
    pace.let_all()
    waiting.wait_for_reply()
    chat.press("Enter")
    chat.wait_for_reply()
    chat.assert_message_text("one too many", "one too many")
