"""Before the model is there, and when it cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Loading, Pace
from tests.inference.doubles import prepare_double
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]


def test_while_the_model_is_fetched_the_page_says_so_and_send_waits(
    serve: Serve, open_tab: OpenTab, tmp_path: Path
) -> None:
    loading = Loading(lambda: prepare_double(tmp_path / "model"))
    chat = open_tab(serve(prepare=loading).url)
    progress = chat.page.locator("#progress")
    expect(progress).to_contain_text("Fetching the double: 31 of 93 MB")
    chat.write("hello")
    expect(chat.send_button).to_be_disabled()
    expect(chat.page.locator("#hint")).to_contain_text("Sending begins when the model is here")
    chat.press("Enter")
    expect(chat.composer).to_have_value("hello")
    loading.fetched.set()
    expect(chat.send_button).to_be_enabled()
    expect(chat.page.locator("#hint")).to_be_empty()
    chat.press("Enter")
    chat.wait_for_reply()
    chat.assert_message_text("hello", "hello")
    expect(progress).to_be_hidden()


def test_the_context_bar_comes_with_the_model(serve: Serve, open_tab: OpenTab, tmp_path: Path) -> None:
    loading = Loading(lambda: prepare_double(tmp_path / "model"))
    chat = open_tab(serve(prepare=loading).url)
    words = chat.page.locator("#context-words")
    expect(words).to_be_hidden()
    loading.fetched.set()
    expect(words).to_contain_text("of 512")


def test_a_model_that_failed_is_told_in_a_sentence_and_tried_again(
    serve: Serve, open_tab: OpenTab, tmp_path: Path
) -> None:
    loading = Loading(lambda: prepare_double(tmp_path / "model"))
    loading.fetched.set()
    loading.failures = ["The network is away. Connect and try again."] * 2
    chat = open_tab(serve(prepare=loading).url)
    progress = chat.page.locator("#progress")
    try_again = chat.page.get_by_role("button", name="Try again")
    expect(progress).to_contain_text("The network is away. Connect and try again.")
    chat.write("hello")
    expect(chat.send_button).to_be_disabled()
    expect(chat.page.locator("#hint")).to_contain_text("Nothing can be sent until the model is here")
    try_again.click()
    expect(try_again).to_be_enabled()
    expect(progress).to_contain_text("The network is away. Connect and try again.")
    try_again.click()
    expect(progress).to_be_hidden()
    expect(chat.composer).to_have_value("hello")
    chat.press("Enter")
    chat.wait_for_reply()
    chat.assert_message_text("hello", "hello")


def test_who_waits_for_the_weights_is_told_so(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(0)
    chat = open_tab(serve(pace=pace).url)
    expect(chat.page.locator("#progress")).to_contain_text("Loading Double")
    chat.send_message("hello")
    waiting = chat.page.locator(".waiting-words")
    expect(waiting).to_have_text("the model is still loading")
    chat.reload()
    expect(waiting).to_have_text("the model is still loading")
    pace.let_all()
    chat.wait_for_reply()
    chat.assert_message_text("hello", "hello")
