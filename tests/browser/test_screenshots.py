"""Pictures of the real thing. `ONDOL_SCREENSHOTS` names the folder that they go to."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.browser.chat_page import ChatPage
from tests.browser.process import Ondol

OpenTab = Callable[..., ChatPage]

SLOW_S = 240.0
QUESTIONS = ("What is the capital of France?", "Why do people like to visit it? Answer in one sentence.")
PRESS_MS = 1_000
LONG_ENOUGH = 400  # characters: a small model may not find an end
PICTURES = {
    "chat-light.png": (1280, 800, "light"),
    "chat-dark.png": (1280, 800, "dark"),
    "phone-light.png": (360, 740, "light"),
    "phone-dark.png": (360, 740, "dark"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where pictures go."""
    chosen = Path(os.environ.get("ONDOL_SCREENSHOTS", tmp_path))
    chosen.mkdir(parents=True, exist_ok=True)
    return chosen


def ask(chat: ChatPage, question: str) -> None:
    """Ask, and stop a reply that goes on and on."""
    chat.send_message(question)

    def stop_if_long() -> None:
        if chat.stop_button.is_enabled() and len(chat.messages()[-1].text) > LONG_ENOUGH:
            with suppress(PlaywrightTimeoutError):  # it may have ended by itself just now
                chat.stop_button.click(timeout=PRESS_MS)

    chat.wait_for_reply(meanwhile=stop_if_long)


def test_pictures_of_a_conversation(ondol: Ondol, open_tab: OpenTab, folder: Path) -> None:
    chat = open_tab(ondol.url, wait_s=SLOW_S).wait_until_ready()
    for question in QUESTIONS:
        ask(chat, question)
    for name, (width, height, theme) in PICTURES.items():
        chat.page.set_viewport_size({"width": width, "height": height})
        chat.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        chat.reload()
        chat.assert_no_sideways_scroll()
        picture = chat.page.screenshot(path=folder / name, animations="disabled")
        assert picture.startswith(b"\x89PNG\r\n")
        assert (folder / name).stat().st_size == len(picture) > 10_000
