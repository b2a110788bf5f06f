"""Enter while a syllable is being composed: Hangul needs it once, Japanese needs it to choose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.ime import ChromiumIme, safari_enter
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]


@pytest.fixture
def chat(serve: Serve, open_tab: OpenTab) -> ChatPage:
    """A page that is ready to be written in."""
    return open_tab(serve().url).wait_until_ready()


@pytest.fixture
def ime(chat: ChatPage) -> ChromiumIme:
    """An input method in that page."""
    chat.composer.focus()
    return ChromiumIme(chat.page.context.new_cdp_session(chat.page))


@pytest.mark.parametrize("again", [False, True])
def test_hangul_is_sent_with_one_enter_and_its_last_syllable(
    chat: ChatPage, ime: ChromiumIme, again: bool
) -> None:
    chat.page.keyboard.insert_text("안녕하세")
    for stage in ("ㅇ", "요"):
        ime.compose(stage)
    ime.enter("요", again=again)
    chat.wait_for_reply()
    chat.assert_message_text("안녕하세요", "안녕하세요")
    expect(chat.composer).to_have_value("")


@pytest.mark.parametrize("enters", [1, 2])
def test_hangul_in_safari_s_order_is_sent_once(chat: ChatPage, enters: int) -> None:
    safari_enter(chat.composer, "안녕하세", "요", enters=enters)
    chat.wait_for_reply()
    chat.assert_message_text("안녕하세요", "안녕하세요")


def test_the_enter_that_chooses_japanese_does_not_send(chat: ChatPage, ime: ChromiumIme) -> None:
    for stage in ("にほn", "にほん", "日本"):
        ime.compose(stage)
    ime.enter("日本")
    expect(chat.composer).to_have_value("日本")
    chat.page.wait_for_timeout(300)
    assert chat.messages() == []
    chat.press("Enter")
    chat.wait_for_reply()
    chat.assert_message_text("日本", "日本")


def test_the_enter_that_chooses_japanese_in_safari_s_order_does_not_send(chat: ChatPage) -> None:
    safari_enter(chat.composer, "", "日本")
    expect(chat.composer).to_have_value("日本")
    chat.page.wait_for_timeout(300)
    assert chat.messages() == []


def test_hangul_is_sent_once_from_the_box_of_a_rewritten_message(chat: ChatPage, ime: ChromiumIme) -> None:
    chat.send_message("hello")
    chat.wait_for_reply()
    chat.press("ArrowUp")
    expect(chat.edit_box).to_be_focused()
    chat.edit_box.fill("안녕하세")
    for stage in ("ㅇ", "요"):
        ime.compose(stage)
    ime.enter("요", again=True)
    chat.assert_message_text("안녕하세요", "안녕하세요")
    assert chat.versions() == ["2/2"]
