"""Somebody moves here with all that was said elsewhere."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.accessibility import assert_accessible
from tests.browser.chat_page import ChatPage
from tests.storage.exports import chatgpt_simple
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]


def test_chats_are_brought_in_read_printed_and_taken_along(
    serve: Serve, open_tab: OpenTab, tmp_path: Path
) -> None:
    served = serve()
    chat = open_tab(served.url).wait_until_ready()
    page = chat.page
    chats = [chatgpt_simple(n, "왜 따뜻해?", "**불** 때문에.") for n in range(30)]
    with zipfile.ZipFile(tmp_path / "chatgpt.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([*chats, {"unknown": 1}]))

    page.locator(".more > summary").click()
    page.get_by_role("link", name="Export and import").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Export and import")
    with page.expect_file_chooser() as choosing:
        page.get_by_text("Choose a file, or drop it here").click()
    choosing.value.set_files(tmp_path / "chatgpt.zip")
    expect(page.locator("#import-result")).to_have_text("30 imported · 1 refused")
    expect(page.locator("#import-words")).to_have_text("31 of 31")
    first = page.locator(".import-item").first
    expect(first).to_contain_text("No. 31 in the file")
    expect(first).to_contain_text("It is not a conversation of Ondol")
    page.reload()
    expect(page.locator("#import-result")).to_have_text("30 imported · 1 refused")
    assert_accessible(page)

    page.get_by_role("link", name="No. 7", exact=True).click()
    chat.wait_until_connected()
    chat.assert_message_text("왜 따뜻해?", "불 때문에.")
    chat.send_message("and then?")
    chat.wait_for_reply()

    page.get_by_role("button", name="Settings of this chat").click()
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Save as JSON").click()
    assert downloading.value.suggested_filename.startswith("2023-11-1")
    saved = json.loads(Path(downloading.value.path()).read_text("utf-8"))
    assert [m["text"] for m in saved["conversations"][0]["messages"]][2] == "and then?"
    page.get_by_role("link", name="Print").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("No. 7")
    expect(page.locator(".letter")).to_contain_text("불 때문에.")
    assert_accessible(page)
    page.emulate_media(media="print")
    expect(page.locator(".letter-tools")).to_be_hidden()
    assert page.pdf().startswith(b"%PDF")
