"""How it looks: both themes, and narrow windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]
Theme = Literal["light", "dark"]

# paper, panel, text
COLOURS: dict[Theme, tuple[str, str, str]] = {
    "light": ("rgb(250, 248, 244)", "rgb(241, 237, 230)", "rgb(33, 29, 24)"),
    "dark": ("rgb(25, 23, 20)", "rgb(36, 33, 29)", "rgb(236, 231, 223)"),
}
WIDE = (
    "A_word_without_any_place_to_break_it_" * 4
    + "\n\n```python\n"
    + "x = "
    + "'a long line' + " * 20
    + "''\n```\n\n"
    + "| "
    + " | ".join(f"column {n}" for n in range(12))
    + " |\n"
    + "|---" * 12
    + "|\n"
    + "| "
    + " | ".join("a value" for _ in range(12))
    + " |\n\n$$"
    + "x + " * 60
    + "y$$\n\n"
    + "띄어쓰기없이아주길게이어지는한국어문장입니다" * 5
)


def colours(chat: ChatPage) -> tuple[str, str, str]:
    """The colours that the page has."""
    return (
        chat.style("html", "background-color"),
        chat.style(".user .body", "background-color"),
        chat.style(".reply .body", "color"),
    )


@pytest.mark.parametrize("theme", COLOURS)
def test_the_page_has_the_colours_of_the_system_s_theme(
    serve: Serve, open_tab: OpenTab, theme: Theme
) -> None:
    chat = open_tab(serve().url)
    chat.page.emulate_media(color_scheme=theme)
    chat.send_message("hello")
    chat.wait_for_reply()
    assert colours(chat) == COLOURS[theme]


def test_a_chosen_theme_wins_and_stays(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    chat.send_message("hello")
    chat.wait_for_reply()
    chat.page.get_by_role("button", name="Dark theme").click()
    assert colours(chat) == COLOURS["dark"]
    chat.reload()
    assert colours(chat) == COLOURS["dark"]
    chat.page.get_by_role("button", name="Theme as the system").click()
    assert colours(chat) == COLOURS["light"]


@pytest.mark.parametrize("width", [320, 360, 721])
def test_nothing_scrolls_sideways(serve: Serve, open_tab: OpenTab, width: int) -> None:
    chat = open_tab(serve(lambda prompt: WIDE, window=16_384).url, width=width, height=740)
    chat.assert_no_sideways_scroll()
    chat.send_message("Donaudampfschifffahrtsgesellschaft" * 6)
    chat.wait_for_reply()
    chat.assert_no_sideways_scroll()
    chat.write("y" * 300)
    chat.assert_no_sideways_scroll()


def test_an_empty_page_in_a_low_window_is_read_from_its_top(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url, width=320, height=420).wait_until_ready()
    expect(chat.page.get_by_text("System text")).to_be_in_viewport()
    chat.page.mouse.move(160, 200)
    chat.page.mouse.wheel(0, 60)
    expect(chat.page.get_by_role("button", name="Jump to latest")).to_be_hidden()


def test_on_a_phone_the_list_is_a_sheet(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url, width=360, height=740)
    chat.send_message("hello")
    chat.wait_for_reply()
    sheet = chat.page.get_by_role("complementary", name="Sidebar")
    expect(sheet).to_be_hidden()
    chat.page.get_by_role("button", name="Show conversations").click()
    expect(sheet).to_be_visible()
    assert chat.conversations() == ["hello"]
    chat.page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
