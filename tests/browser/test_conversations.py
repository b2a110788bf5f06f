"""The list of conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from playwright.sync_api import expect

from storage.bulk import Whole, keep_all
from storage.conversations import utc_now
from storage.records import ConversationRecord, MessageRecord, Status
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


def test_a_deleted_conversation_is_brought_back_and_gone_without_that(
    serve: Serve, open_tab: OpenTab
) -> None:
    served = serve()
    chat = open_tab(served.url)
    for text in ("keep this", "drop this"):
        chat.new_chat()
        chat.send_message(text)
        chat.wait_for_reply()
    address = chat.page.url.removeprefix(chat.url)
    other = open_tab(served.url, address)
    for tab in (chat, other):
        tab.expect_complaint("404")
    chat.delete("drop this")
    expect(chat.page.locator("#toast")).to_contain_text("Deleted: drop this")  # on the page that came
    assert chat.conversations() == ["keep this"]
    expect(other.page.locator("#toast")).to_contain_text("This conversation was deleted.")
    chat.undo()
    chat.page.wait_for_url(chat.url + address)
    chat.wait_until_connected()
    assert chat.conversations() == ["drop this", "keep this"]
    expect(other.page.locator("#toast")).to_be_hidden()
    chat.delete("drop this")
    chat.page.wait_for_url(chat.url + "/")
    chat.page.goto(chat.url + address)
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Not found")
    chat.page.get_by_role("link", name="Start a new chat").click()
    expect(chat.composer).to_be_focused()


def test_a_conversation_is_pinned_and_another_put_away_and_taken_back(
    serve: Serve, open_tab: OpenTab
) -> None:
    served = serve()
    keep_all(served.database, some_conversations(120))
    chat = open_tab(served.url)
    assert len(chat.conversations()) == 50
    chat.page.get_by_role("button", name="More for “chat 10”").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_role("menuitem", name="Rename")).to_be_focused()
    chat.page.keyboard.press("ArrowDown")
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator("#conversations h2").first).to_have_text("Pinned")
    assert chat.groups()["Pinned"] == ["chat 10"]
    expect(chat.page.get_by_role("button", name="More for “chat 10”")).to_be_focused()
    chat.act("chat 0", "Archive")
    expect(chat.page.locator("#toast")).to_contain_text("Archived: chat 0")
    chat.page.get_by_role("button", name="Archived conversations").click()
    expect(chat.page.locator("#conversations .row-title")).to_have_text(["chat 0"])
    chat.act("chat 0", "Back into the list")
    expect(chat.page.locator("#conversations .row")).to_have_count(0)
    chat.page.get_by_role("button", name="Back", exact=True).click()
    expect(chat.page.get_by_title("chat 0", exact=True)).to_be_visible()
    chat.page.get_by_title("chat 48", exact=True).scroll_into_view_if_needed()  # and more of them come
    expect(chat.page.get_by_title("chat 60", exact=True)).to_be_attached()
    chat.send_message("a new one")  # the list keeps its length when it changes
    chat.wait_for_reply()
    expect(chat.page.get_by_title("a new one", exact=True)).to_be_visible()
    assert {"a new one", "chat 60"} <= set(chat.conversations())


def some_conversations(count: int) -> Iterator[Whole]:
    """A question each, an hour apart."""
    for number in range(count):
        at = utc_now() - timedelta(hours=1 + number)
        said = MessageRecord(f"m{number}", f"c{number}", None, None, "user", "hello", Status.DONE, at)
        chat = ConversationRecord(f"c{number}", f"chat {number}", "", said.id, None, at, at)
        yield Whole(chat, [said])
