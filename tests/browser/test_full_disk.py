"""The disk is full: what a person sees, and what becomes of what they wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.reliability.disk import Disk, build_library
from tests.reliability.servers import Task, scripted, servers

FIRST, SECOND, THIRD = "How is it heated?", "Who builds it?", "Why is the floor warm?"


@pytest.mark.row(4)
def test_on_a_full_disk_one_reads_on_keeps_what_one_wrote_and_is_told_what_to_do(
    open_tab: Callable[..., ChatPage], tmp_path: Path
) -> None:
    with servers(build_library(tmp_path)) as started, Disk(tmp_path / "control") as disk:
        server = started.start(Task(str(tmp_path), str(disk.file), step_s=0.006, again_s=0.2))
        tab = open_tab(server.url).wait_until_ready()
        tab.send_message(FIRST)
        tab.wait_for_reply()

        tab.send_message(SECOND)
        tab.wait_for_text(scripted(SECOND)[:20])
        disk.fill()
        banner = tab.page.locator("#unsaved")
        expect(banner).to_contain_text("The disk is full: nothing can be saved.")
        expect(banner).to_contain_text(f"0.0 MiB are free in {tmp_path / 'data'}. Make room")
        expect(banner).to_contain_text("1 reply has ended and is in memory alone")

        tab.reload()
        expect(banner).to_contain_text("The disk is full")
        tab.assert_message_text(FIRST, scripted(FIRST), SECOND, scripted(SECOND))

        tab.new_chat()
        tab.wait_until_ready()
        tab.write(THIRD)
        expect(tab.send_button).to_be_enabled()
        tab.press("Enter")
        expect(tab.page.locator("#note")).to_contain_text("is full: nothing was saved.")
        expect(tab.composer).to_have_value(THIRD)

        disk.work()
        expect(banner).to_have_count(0)
        tab.press("Enter")
        assert tab.wait_for_reply().text == scripted(THIRD)
        tab.open_conversation(FIRST)
        tab.wait_until_connected()
        assert [(m.text, m.status) for m in tab.messages()[2:]] == [
            (SECOND, "done"),
            (scripted(SECOND), "done"),
        ]
        server.end()
