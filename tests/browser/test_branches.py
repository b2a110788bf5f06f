"""Other replies, rewritten messages, replies that go on, and deleting: on one page and on two."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.chat_page import ChatPage
from tests.browser.feeding import Feed
from tests.browser.pacing import Pace
from tests.web.serving import Served
from web.protocol import Snapshot

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

LETTERS = "abcdefghij" * 30
CLIPBOARD = "() => navigator.clipboard.readText()"
PICTURES = {
    "desk-light": (1280, 800, "light"),
    "desk-dark": (1280, 800, "dark"),
    "phone-light": (360, 740, "light"),
    "phone-dark": (360, 740, "dark"),
}


def pictures(chat: ChatPage, name: str) -> None:
    """`ONDOL_SCREENSHOTS` names the folder that pictures go to, in both widths and themes."""
    if (folder := os.environ.get("ONDOL_SCREENSHOTS")) is None:
        return
    for size, (width, height, theme) in PICTURES.items():
        chat.page.set_viewport_size({"width": width, "height": height})
        chat.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        chat.page.wait_for_timeout(200)  # colours change smoothly
        chat.page.screenshot(path=Path(folder) / f"{name}-{size}.png", animations="disabled")
    chat.page.emulate_media(color_scheme="light")
    chat.page.set_viewport_size({"width": 1280, "height": 800})


def telling(prompt: str) -> str:
    """A model that says what it was told."""
    return f"You said **{prompt.rpartition('user' + chr(10))[2].strip()}**, and that is `all` I know."


def ask(chat: ChatPage, *texts: str) -> None:
    for text in texts:
        chat.send_message(text)
        chat.wait_for_reply()


def test_another_reply_stands_beside_the_first_and_both_can_be_looked_at(
    serve: Serve, open_tab: OpenTab
) -> None:
    served = serve(telling, window=4_096)
    chat, other = open_tab(served.url), None
    ask(chat, "one", "two")
    other = open_tab(served.url, chat.page.url.removeprefix(served.url))
    chat.press_action(1, "Write another reply")
    for page in (chat, other):
        page.assert_message_text("one", "You said one, and that is all I know.")
        expect(page.page.locator(".version-place")).to_have_text("2/2")
    other.press_action(1, "Version before")
    for page in (chat, other):
        expect(page.message(3)).to_be_visible()
        assert page.versions() == ["1/2"]
    chat.reload()
    assert [message.text for message in chat.messages()][2] == "two"
    chat.message(1).hover()
    pictures(chat, "versions")


def test_a_rewritten_message_is_a_branch_of_its_own(serve: Serve, open_tab: OpenTab) -> None:
    served = serve(telling, window=4_096)
    chat = open_tab(served.url)
    ask(chat, "one", "two", "three")
    chat.press_action(2, "Edit this message")
    expect(chat.edit_box).to_have_value("two")
    expect(chat.edit_box).to_be_focused()
    chat.edit_box.fill("zwei\nund noch eine Zeile, die etwas länger ist")
    pictures(chat, "edit")
    chat.edit_box.press("Enter")
    chat.wait_for_text("You said zwei")
    chat.wait_for_reply()
    assert chat.messages()[2].text.startswith("zwei")
    assert len(chat.messages()) == 4
    assert chat.versions() == ["2/2"]
    chat.press_action(2, "Version before")
    expect(chat.message(5)).to_be_visible()
    assert [message.text for message in chat.messages() if message.mine] == ["one", "two", "three"]
    expect(chat.message(2).get_by_role("button", name="Version after")).to_be_focused()


def test_up_rewrites_the_last_message_and_escape_leaves_it(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    ask(chat, "hello", "there")
    chat.press("ArrowUp")
    expect(chat.edit_box).to_have_value("there")
    chat.edit_box.press("Escape")
    expect(chat.edit_box).to_have_count(0)
    expect(chat.message(2).get_by_role("button", name="Edit this message")).to_be_focused()
    chat.assert_message_text("hello", "hello", "there", "there")
    chat.write("a draft")
    chat.press("ArrowUp")
    expect(chat.edit_box).to_have_count(0)


def test_a_message_is_still_being_rewritten_when_the_transcript_comes_anew(
    serve: Serve, open_tab: OpenTab
) -> None:
    chat = open_tab(serve(telling).url)
    ask(chat, "one")
    feed = Feed(chat.page)
    chat.page.reload()
    chat.wait_until_ready()
    transcript = chat.page.locator("#transcript").inner_html()
    chat.press_action(0, "Edit this message")
    chat.edit_box.fill("one, and more")
    feed.put(Snapshot("", chat.page.url.rpartition("/")[2], transcript, None))
    expect(chat.edit_box).to_have_count(1)
    expect(chat.edit_box).to_have_value("one, and more")
    expect(chat.edit_box).to_be_focused()


def test_a_rewritten_message_that_cannot_fit_stays_in_its_box(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve(window=256).url).wait_until_ready()
    ask(chat, "hello")
    chat.press_action(0, "Edit this message")
    send = chat.page.locator(".edit").get_by_role("button", name="Send")
    chat.edit_box.fill("x" * 400)
    expect(chat.page.locator("#context-note")).to_contain_text("Shorten by")
    expect(send).to_be_disabled()
    chat.edit_box.press("Enter")
    expect(chat.edit_box).to_have_value("x" * 400)
    chat.edit_box.fill("short")
    expect(send).to_be_enabled()
    send.click()
    chat.assert_message_text("short", "short")


def test_a_stopped_reply_goes_on_from_another_device(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(40)
    served = serve(lambda prompt: LETTERS, pace=pace, window=4_096)
    chat = open_tab(served.url)
    chat.send_message("go")
    chat.wait_for_text("abc")
    other = open_tab(served.url, chat.page.url.removeprefix(served.url))
    other.wait_for_text("abc")
    other.stop()
    stopped = chat.wait_for_reply(meanwhile=pace.let)
    assert "after Stop" in stopped.line
    assert LETTERS.startswith(stopped.text)
    chat.message(1).hover()
    pictures(chat, "stopped")
    while pace.acquire(blocking=False):
        pass
    other.message(1).get_by_role("button", name="Continue this reply").click()
    expect(chat.page.locator(".waiting-words")).to_contain_text("reading")
    assert chat.reply().text.startswith(stopped.text)
    pace.let_all()
    for page in (chat, other):
        assert page.wait_for_reply().text == LETTERS
        expect(page.message(1).get_by_role("button", name="Continue this reply")).to_have_count(0)


def test_a_deleted_branch_comes_back_with_undo_on_every_device(serve: Serve, open_tab: OpenTab) -> None:
    served = serve(telling, window=4_096)
    chat = open_tab(served.url)
    ask(chat, "one", "two")
    other = open_tab(served.url, chat.page.url.removeprefix(served.url))
    chat.press_action(2, "Delete this message")
    toast = chat.page.locator("#toast")
    expect(toast).to_contain_text("Deleted")
    toast.hover()  # it stays while somebody points at it
    pictures(chat, "deleted")
    for page in (chat, other):
        page.assert_message_text("one", "You said one, and that is all I know.")
    expect(other.page.locator("#toast")).to_be_hidden()
    toast.get_by_role("button", name="Undo").click()
    for page in (chat, other):
        expect(page.message(3)).to_be_visible()
    expect(toast).to_be_hidden()


def test_deleting_everything_leaves_an_empty_chat_to_write_in(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    ask(chat, "one")
    chat.press_action(0, "Delete this message")
    expect(chat.page.locator(".empty")).to_be_visible()
    ask(chat, "anew")
    chat.assert_message_text("anew", "anew")
    assert chat.conversations() == ["one"]


def test_a_question_without_a_reply_can_be_answered(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    ask(chat, "one")
    chat.press_action(1, "Delete this reply")
    answer = chat.page.get_by_role("button", name="Answer this")
    expect(answer).to_be_visible()
    answer.click()
    chat.assert_message_text("one", "one")
    expect(answer).to_have_count(0)


def test_a_failed_reply_can_be_tried_again_where_it_failed(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(1)
    served = serve(pace=pace)
    chat = open_tab(served.url).wait_until_ready()
    served.backends[0].fail_with = RuntimeError("the matrix is too warm")
    pace.let(1)
    chat.send_message("hello")
    assert "too warm" in chat.wait_for_reply(meanwhile=pace.let).outcome
    pictures(chat, "failed")
    pace.let_all()
    chat.page.get_by_role("button", name="Try again").last.click()
    chat.wait_for("a reply", lambda reply: reply.status == "done" and not reply.outcome)
    assert chat.versions() == ["2/2"]


def test_copying_gives_the_source_of_a_message(
    serve: Serve, open_tab: OpenTab, context: BrowserContext
) -> None:
    served = serve(lambda prompt: "A **bold** word\n\n```py\nx = 1\n```")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=served.url)
    chat = open_tab(served.url)
    ask(chat, "hello")
    chat.press_action(1, "Copy this reply")
    expect(chat.message(1).get_by_text("Copied")).to_be_visible()
    assert chat.page.evaluate(CLIPBOARD) == "A **bold** word\n\n```py\nx = 1\n```"
    chat.press_action(1, "Copy this code")
    expect(chat.message(1).get_by_text("Copied").last).to_be_visible()
    assert chat.page.evaluate(CLIPBOARD) == "x = 1"


@pytest.mark.parametrize("works", [True, False])
def test_copying_without_the_clipboard_api_works_or_says_that_it_does_not(
    serve: Serve, open_tab: OpenTab, context: BrowserContext, works: bool
) -> None:
    served = serve()
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=served.url)
    reader = open_tab(served.url)
    chat = ChatPage(context.new_page(), served.url)
    chat.page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    if not works:
        chat.page.add_init_script("Document.prototype.execCommand = () => false")
    chat.open()
    ask(chat, "over plain HTTP")
    chat.press_action(0, "Copy this message")
    expect(chat.message(0).get_by_text("Copied" if works else "Could not copy")).to_be_visible()
    if works:
        reader.page.bring_to_front()
        assert reader.page.evaluate(CLIPBOARD) == "over plain HTTP"
    assert chat.complaints() == []


def test_a_long_text_that_is_pasted_is_sent_exactly(
    serve: Serve, open_tab: OpenTab, context: BrowserContext
) -> None:
    served = serve(lambda prompt: "Long.", window=400_000)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=served.url)
    chat = open_tab(served.url).wait_until_ready()
    text = '한글 "and" more\n' * 5_000
    chat.page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    chat.press("Control+V")
    expect(chat.page.locator("#context-words")).to_contain_text("90,038 of 400,000")
    chat.press("Enter")
    assert chat.wait_for_reply().text == "Long."
    expect(chat.composer).to_have_value("")
    message_id = chat.message(0).get_attribute("data-message-id")
    assert served.get(f"/api/messages/{message_id}/text").text == text


def test_a_text_over_a_mebibyte_stays_with_both_numbers(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url).wait_until_ready()
    chat.write("x" * 1_048_580)
    hint = chat.page.locator("#hint")
    expect(hint).to_contain_text("1,048,580 bytes, and 1,048,576 fit")
    expect(chat.send_button).to_be_disabled()


def test_on_a_touch_screen_actions_are_always_there(serve: Serve, browser: Browser) -> None:
    served = serve(telling, window=4_096)
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    chat = ChatPage(context.new_page(), served.url).open()
    for text in ("one", "two"):
        chat.write(text)
        chat.send_button.tap()
        chat.wait_for_text(f"You said {text}")
        chat.wait_for_reply()
    for name in ("Copy this reply", "Write another reply", "Delete this reply"):
        expect(chat.message(1).get_by_role("button", name=name)).to_have_css("opacity", "1")
    chat.message(3).get_by_role("button", name="Write another reply").tap()
    expect(chat.page.locator(".version-place")).to_have_text("2/2")
    chat.wait_for_reply()
    chat.assert_no_sideways_scroll()
    if folder := os.environ.get("ONDOL_SCREENSHOTS"):
        chat.page.screenshot(path=Path(folder) / "touch.png")
    assert chat.complaints() == []
    context.close()


def test_actions_can_be_reached_with_the_keyboard(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    ask(chat, "one")
    again = chat.message(1).get_by_role("button", name="Write another reply")
    chat.page.mouse.move(0, 0)
    expect(again).to_have_css("opacity", "0")
    again.focus()
    expect(again).to_have_css("opacity", "1")
    chat.page.keyboard.press("Enter")
    chat.wait_for("the second", lambda reply: not reply.is_running and chat.versions() == ["2/2"])
    expect(chat.composer).to_be_focused()
    chat.message(1).get_by_role("button", name="Version before").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.message(1).get_by_role("button", name="Version after")).to_be_focused()
