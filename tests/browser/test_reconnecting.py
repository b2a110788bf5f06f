"""The server goes away under an open page and comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from storage.database import Database
from storage.listing import Listing
from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Loading, Pace
from tests.inference.doubles import prepare_double
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

NO_CONNECTION = "WebSocket connection to|ERR_CONNECTION_REFUSED"


def test_an_interrupted_reply_is_kept_and_shown_after_reconnecting(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(60)
    served = serve(lambda prompt: "abcdefghij " * 50, pace=pace, window=4096)
    chat = open_tab(served.url)
    chat.expect_complaint(NO_CONNECTION)
    chat.send_message("go")
    seen = chat.wait_for_text("abcdefghij abc").text
    served.close()
    expect(chat.page.get_by_text("Reconnecting")).to_be_visible()
    serve(port=served.port, window=4096)
    chat.wait_until_connected()
    reply = chat.wait_for("the interrupted reply", lambda reply: reply.status == "interrupted")
    assert reply.text.startswith(seen)
    assert "What had been written is kept" in reply.outcome
    chat.send_message("and on")
    chat.wait_for_reply()
    assert chat.messages()[-1].text == "and on"


def test_a_message_written_without_a_connection_goes_out_once_the_model_is_back(
    serve: Serve, open_tab: OpenTab, tmp_path: Path
) -> None:
    loading = Loading(lambda: prepare_double(tmp_path / "model"))
    served = serve()
    chat = open_tab(served.url).wait_until_ready()
    chat.expect_complaint(NO_CONNECTION)
    served.close()
    expect(chat.page.get_by_text("Reconnecting")).to_be_visible()
    chat.send_message("are you there")
    expect(chat.page.get_by_role("alert")).to_contain_text("Your message goes out as soon as")
    serve(port=served.port, prepare=loading)
    chat.wait_until_connected()
    expect(chat.page.locator("#progress")).to_contain_text("Fetching the double")
    chat.assert_message_text("are you there")
    expect(chat.composer).to_have_value("")
    loading.fetched.set()
    chat.wait_for_reply()
    chat.assert_message_text("are you there", "are you there")
    chat.reload()
    chat.assert_message_text("are you there", "are you there")


def test_what_became_of_the_conversation_meanwhile_is_told_with_the_connection(
    serve: Serve, open_tab: OpenTab, tmp_path: Path
) -> None:
    served = serve()
    chat = open_tab(served.url).wait_until_ready()
    chat.expect_complaint(NO_CONNECTION)
    chat.send_message("stay warm")
    chat.wait_for_reply()
    conversation_id = chat.page.url.rpartition("/")[2]
    note, deleted = chat.page.get_by_role("alert"), "This conversation was deleted."

    def meanwhile(happens: Callable[[Listing], object]) -> None:
        nonlocal served
        served.close()
        database = Database.open(tmp_path / "data")
        happens(Listing(database))
        database.close()
        served = serve(port=served.port)

    meanwhile(lambda listing: listing.delete(conversation_id))
    expect(note).to_have_text(deleted)
    meanwhile(lambda listing: listing.restore(conversation_id))
    expect(note).to_be_hidden()
    meanwhile(lambda listing: listing.delete(conversation_id))
    expect(note).to_have_text(deleted)
    with chat.page.expect_navigation():
        chat.undo()
    chat.assert_message_text("stay warm", "stay warm")
