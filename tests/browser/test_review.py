"""Looking back at a reply: how it came about, the same once more, two versions, and its tokens."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from storage.tables import Message
from tests.browser.accessibility import assert_accessible
from tests.browser.chat_page import ChatPage
from tests.inference.doubles import chat_tokenizer
from tests.inference.test_engine_sampling import ScatteredBackend
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

RECORD = "How this reply came about"
LONG = 20_000


def ask(chat: ChatPage, text: str) -> None:
    chat.send_message(text)
    chat.wait_for_reply()


def test_a_reply_is_looked_into_written_again_and_its_versions_compared(
    serve: Serve, open_tab: OpenTab
) -> None:
    served = serve(window=1_024, kind=ScatteredBackend)
    chat = open_tab(served.url).wait_until_ready()
    page = chat.page
    ask(chat, "안녕")
    chat.reload()  # a reply that is this quick comes once more, as a whole, to the page that asked for it
    record = page.get_by_role("dialog", name=RECORD)
    opening = page.get_by_role("button", name=RECORD)
    opening.focus()
    page.keyboard.press("Enter")
    expect(record).to_contain_text("Tokenize")
    expect(record).to_contain_text("100 bytes a token")
    assert_accessible(page)
    page.set_viewport_size({"width": 360, "height": 740})
    chat.assert_no_sideways_scroll()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.keyboard.press("Escape")
    expect(opening).to_be_focused()
    page.keyboard.press("Enter")
    record.get_by_role("button", name="Run again with …").click()
    expect(record.get_by_role("textbox", name="Temperature")).to_be_focused()
    record.get_by_role("textbox", name="Temperature").fill("1.5")
    record.get_by_role("button", name="Write another version").click()
    expect(page.locator(".version-place")).to_have_text("2/2")
    chat.wait_for_reply()
    opening.click()
    record.get_by_role("button", name="Run again with this seed").click()
    expect(page.locator(".version-place")).to_have_text("3/3")
    chat.wait_for_reply()
    page.get_by_role("link", name="Compare the versions").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Two versions")
    expect(page.locator(".summary")).to_contain_text("The same, token for token")
    page.get_by_role("combobox", name="with").select_option(label="Version 1")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("row", name="Temperature")).to_contain_text("1.5")
    assert page.locator("del").count()
    assert_accessible(page)
    page.set_viewport_size({"width": 360, "height": 740})
    chat.assert_no_sideways_scroll()
    expect(page.locator("ins").last).to_be_hidden()
    page.get_by_role("radio", name="Version 2").check()
    expect(page.locator("ins").last).to_be_visible()


def test_the_tokens_of_a_long_reply_are_gone_through_with_the_keys(serve: Serve, open_tab: OpenTab) -> None:
    served = serve(lambda prompt: "a 온돌 😀")
    chat = open_tab(served.url).wait_until_ready()
    page = chat.page
    ask(chat, "hello")
    page.get_by_role("button", name=RECORD).click()
    page.get_by_role("link", name="Look at its").click()
    card, tokens = page.locator("#token-card"), page.get_by_role("listbox", name="Tokens, in their order")
    expect(page.get_by_role("option")).to_have_count(13)
    page.get_by_role("button", name="Compute the probabilities").click()
    expect(page.get_by_role("option", name="a, 100 %")).to_be_visible()
    expect(tokens).to_be_focused()
    page.keyboard.press("End")
    expect(card).to_contain_text("part of a character")
    expect(card).to_contain_text("Likeliest here")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(card.locator(".token-piece")).to_have_text("␣")
    assert_accessible(page)
    reply_id = page.locator("#token-view").get_attribute("data-reply-id")
    with served.database.write() as session:
        message = session.get_one(Message, reply_id)
        message.token_ids = chat_tokenizer().encode_text("온돌 house\n" * (LONG // 13 + 1))[:LONG]
    page.reload()
    expect(page.get_by_role("button", name="Compute the probabilities")).to_be_visible()  # it has gone on
    tokens.focus()
    page.keyboard.press("End")
    expect(card).to_contain_text(f"{LONG:,}")
    assert page.locator(".tok").count() < LONG / 4
    page.set_viewport_size({"width": 360, "height": 740})
    chat.assert_no_sideways_scroll()
