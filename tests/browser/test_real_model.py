"""The whole of it: the `ondol` command, its own model, a browser.

On a slow machine the model writes six tokens a second; replies are therefore short, or stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.process import Ondol

OpenTab = Callable[..., ChatPage]

SLOW_S = 240.0
LONG = "Tell me a long story about a house in the mountains."
SHORT = "What is the capital of France? Answer in one word."


def letters(text: str) -> str:
    """Only the letters: while it is being written, markdown shows marks that it does not have in the end."""
    return "".join(re.findall(r"[^\W\d_]", text))


def grown(chat: ChatPage, seen: str) -> str:
    """The reply once it shows more than `seen`."""
    return chat.wait_for("more text", lambda reply: len(reply.text) > len(seen) and reply.is_running).text


def test_a_reply_streams_in_and_is_stopped(ondol: Ondol, open_tab: OpenTab) -> None:
    chat = open_tab(ondol.url, wait_s=SLOW_S).wait_until_ready()
    chat.send_message(LONG)
    first = grown(chat, "")
    second = grown(chat, first)
    chat.stop()
    reply = chat.wait_for_reply()
    assert letters(second).startswith(letters(first))
    assert letters(reply.text).startswith(letters(second))
    assert "stopped" in reply.line
    chat.reload()
    assert chat.reply() == reply


def test_a_reload_in_the_middle_loses_nothing(ondol: Ondol, open_tab: OpenTab) -> None:
    chat = open_tab(ondol.url, wait_s=SLOW_S).wait_until_ready()
    chat.send_message(LONG)
    before = grown(chat, "")
    chat.reload()
    after = grown(chat, before)
    assert letters(after).startswith(letters(before))
    chat.stop()
    finished = chat.wait_for_reply()
    assert letters(finished.text).startswith(letters(after))
    stored = open_tab(ondol.url, chat.page.url.removeprefix(ondol.url))
    assert stored.messages() == chat.messages()


def test_two_tabs_watch_the_same_reply_and_the_second_turn_reuses_the_first(
    ondol: Ondol, open_tab: OpenTab
) -> None:
    chat = open_tab(ondol.url, wait_s=SLOW_S).wait_until_ready()
    chat.send_message(LONG)
    grown(chat, "")
    other = open_tab(ondol.url, chat.page.url.removeprefix(ondol.url), wait_s=SLOW_S)
    grown(other, grown(chat, ""))
    other.stop()
    assert chat.wait_for_reply() == other.wait_for_reply()
    chat.send_message(SHORT)
    second = chat.wait_for_reply()
    assert other.wait_for_reply() == second
    reused, read = (
        int(n.replace(",", "")) for n in re.findall(r"reused ([\d,]+) of ([\d,]+)", second.line)[0]
    )
    assert 30 < reused < read
    assert re.search(r"\d+ tok · [\d.]+ s · [\d.]+ tok/s", second.line)


def test_a_chat_is_there_after_the_server_was_started_again(ondol: Ondol, open_tab: OpenTab) -> None:
    chat = open_tab(ondol.url, wait_s=SLOW_S).wait_until_ready()
    chat.send_message(SHORT)
    chat.wait_for_reply()
    messages = chat.messages()
    chat.expect_complaint("WebSocket connection to|ERR_CONNECTION_REFUSED")
    ondol.restart()
    chat.wait_until_connected()
    assert chat.messages() == messages
    chat.open()
    chat.open_conversation(SHORT)
    expect(chat.page.locator(".message")).to_have_count(2)
    assert chat.messages() == messages
