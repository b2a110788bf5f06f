"""The list of conversations."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]


def test_conversations_are_listed_newest_first_and_opened_again(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    for text in ("first", "second"):
        chat.new_chat()
        chat.send_message(text)
        chat.wait_for_reply()
    assert chat.conversations() == ["second", "first"]
    chat.open_conversation("first")
    chat.assert_message_text("first", "first")


def test_a_conversation_is_renamed_on_every_page(serve: Serve, open_tab: OpenTab) -> None:
    served = serve()
    chat = open_tab(served.url)
    chat.send_message("hello")
    chat.wait_for_reply()
    other = open_tab(served.url)
    chat.rename("hello", to="인사 <b>&</b>")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("인사 <b>&</b>")
    expect(other.page.get_by_role("link", name="인사 <b>&</b>")).to_be_visible()
    chat.reload()
    assert chat.conversations() == ["인사 <b>&</b>"]


def test_a_conversation_is_deleted_on_the_second_press(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    for text in ("keep this", "drop this"):
        chat.new_chat()
        chat.send_message(text)
        chat.wait_for_reply()
    address = chat.page.url.removeprefix(chat.url)
    chat.delete("drop this")
    chat.page.wait_for_url(chat.url + "/")
    assert chat.conversations() == ["keep this"]
    chat.expect_complaint("404")
    chat.page.goto(chat.url + address)
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Not found")
    chat.page.get_by_role("link", name="Start a new chat").click()
    expect(chat.composer).to_be_focused()
