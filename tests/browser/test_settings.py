"""Settings, presets, pins, shortcuts and text size, as a person meets them."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, expect

from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Pace
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

COOK = "You are a cook. Never use salt."


def open_settings(chat: ChatPage) -> Locator:
    chat.page.get_by_role("button", name="Settings of this chat").click()
    sheet = chat.page.get_by_role("dialog", name="Settings")
    expect(sheet.get_by_label("Temperature")).to_be_visible()
    return sheet


def save(sheet: Locator) -> None:
    sheet.get_by_role("button", name="Save", exact=True).click()
    expect(sheet).to_be_hidden()


def leave_the_composer(chat: ChatPage) -> None:
    """Nothing is being written now."""
    chat.page.locator("#scroller").focus()


def test_a_preset_is_made_chosen_and_read_by_the_model(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve(window=2048).url).wait_until_ready()
    sheet = open_settings(chat)
    sheet.get_by_role("textbox", name="System text").fill(COOK)
    expect(sheet.get_by_label("Preset", exact=True)).to_have_value("own")
    sheet.get_by_text("Keep as a preset").click()
    sheet.get_by_role("button", name="Keep", exact=True).click()
    expect(sheet.get_by_role("alert").filter(has_text="A preset needs a name.")).to_be_visible()
    sheet.get_by_label("Name of the preset").fill("Cook")
    sheet.get_by_role("button", name="Keep", exact=True).click()
    expect(sheet.get_by_role("status")).to_contain_text("Kept.")
    chat.page.keyboard.press("Escape")
    other = open_tab(chat.url).wait_until_ready()
    choice = other.page.get_by_role("button", name="Cook")
    choice.click()
    expect(choice).to_have_attribute("aria-pressed", "true")
    expect(other.page.get_by_text("System text · Cook")).to_be_visible()
    other.reload()
    expect(choice).to_have_attribute("aria-pressed", "true")
    other.send_message("soup?")
    assert "reused" in other.wait_for_reply().line
    other.page.get_by_text("System text · Cook").click()
    expect(other.page.get_by_text(COOK)).to_be_visible()
    other.new_chat()
    expect(other.page.get_by_role("button", name="Standard")).to_have_attribute("aria-pressed", "true")


def test_a_value_out_of_range_is_refused_at_its_field(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url).wait_until_ready()
    chat.send_message("hello")
    chat.wait_for_reply()
    sheet = open_settings(chat)
    temperature, longest = sheet.get_by_label("Temperature"), sheet.get_by_label("Longest reply")
    expect(temperature).to_have_attribute("placeholder", "0")
    temperature.fill("9")
    longest.fill("1.5")
    sheet.get_by_role("button", name="Save", exact=True).click()
    expect(temperature).to_be_focused()
    expect(sheet.get_by_role("alert")).to_have_text(["Allowed: 0 to 5.", "Allowed: whole numbers, 1 to 128."])
    temperature.fill("0,5")
    longest.fill("40")
    save(sheet)
    expect(chat.page.locator('[data-part="reserve"]')).to_have_text("40")
    chat.reload()
    sheet = open_settings(chat)
    expect(temperature).to_have_value("0.5")
    sheet.get_by_role("button", name="Reset").click()
    expect(temperature).to_have_value("")
    save(sheet)
    expect(chat.page.locator('[data-part="reserve"]')).to_have_text("128")


def test_defaults_are_for_new_chats(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url).wait_until_ready()
    sheet = open_settings(chat)
    sheet.get_by_label("Longest reply").fill("50")
    sheet.get_by_role("button", name="Save, and for new chats").click()
    expect(sheet.get_by_role("status")).to_contain_text("New chats begin with these values.")
    other = open_tab(chat.url).wait_until_ready()
    expect(other.page.locator('[data-part="reserve"]')).to_have_text("50")


def test_what_one_tab_changes_shows_in_another(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve(window=2048).url).wait_until_ready()
    chat.send_message("hello")
    chat.wait_for_reply()
    other = open_tab(chat.url, chat.page.url.removeprefix(chat.url)).wait_until_ready()
    seen, sheet = open_settings(other), open_settings(chat)
    sheet.get_by_label("Seed").fill("7")
    sheet.get_by_role("textbox", name="System text").fill(COOK)
    expect(sheet.get_by_text("reads this chat anew")).to_be_visible()
    save(sheet)
    expect(seen.get_by_label("Seed")).to_have_value("7")
    other.page.keyboard.press("Escape")
    other.page.locator(".system summary").click()
    expect(other.page.get_by_text(COOK)).to_be_visible()
    other.send_message("and now?")
    assert "the system prompt was changed" in other.wait_for_reply().line


def test_a_pinned_message_stays_above_the_line(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve(lambda prompt: "ok " * 12).url).wait_until_ready()
    chat.send_message("remember: the key is under the pot")
    chat.wait_for_reply()
    first = chat.page.locator(".message.user").first
    first.hover()
    first.get_by_role("button", name="Pin this message").click()
    expect(first.get_by_text("pinned")).to_be_visible()
    expect(chat.page.locator('[data-part="pinned"]')).not_to_have_text("0")
    for number in range(5):
        chat.send_message(f"{number} and something else to read")
        chat.wait_for_reply()
    expect(chat.page.locator(".cut")).to_be_visible()
    expect(first.get_by_text("pinned, still read")).to_be_visible()
    read, left = chat.style(".user[data-pinned] .body", "color"), "rgb(107, 99, 90)"
    assert read == "rgb(33, 29, 24)"
    assert chat.style(".message.user:nth-of-type(3) .body", "color") == left
    chat.reload()
    expect(first.get_by_text("pinned, still read")).to_be_visible()
    first.hover()
    first.get_by_role("button", name="Pin this message").click()
    expect(first.get_by_text("pinned")).to_be_hidden()
    expect(chat.page.locator('[data-part="pinned"]')).to_have_text("0")


def test_shortcuts_work_while_nothing_is_written_and_only_then(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(60)
    chat = open_tab(serve(lambda prompt: "abc " * 30, pace=pace, window=2048).url).wait_until_ready()
    chat.page.keyboard.type("n?m")
    expect(chat.composer).to_have_value("n?m")
    chat.send_message("hello")
    chat.wait_for_text("abc")
    leave_the_composer(chat)
    chat.page.keyboard.press(".")
    chat.wait_for_reply(meanwhile=pace.let)
    chat.page.keyboard.press("?")
    help_sheet = chat.page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help_sheet.get_by_text("Copy the last reply")).to_be_visible()
    chat.page.keyboard.press("n")  # a sheet is open
    chat.page.keyboard.press("Escape")
    chat.page.keyboard.press("m")
    expect(chat.composer).to_be_focused()
    chat.page.keyboard.press("Control+/")
    expect(help_sheet).to_be_visible()
    help_sheet.get_by_label("Single keys").uncheck()
    chat.page.keyboard.press("Escape")
    leave_the_composer(chat)
    chat.page.keyboard.press("b")
    expect(chat.page.get_by_role("complementary", name="Sidebar")).to_be_visible()
    chat.page.keyboard.press("Control+/")
    help_sheet.get_by_label("Single keys").check()
    chat.page.keyboard.press("Escape")
    leave_the_composer(chat)
    chat.page.keyboard.press("b")
    expect(chat.page.get_by_role("complementary", name="Sidebar")).to_be_hidden()
    chat.page.keyboard.press("/")
    expect(chat.search_field).to_be_focused()
    expect(chat.page.locator(".found-place")).to_have_count(1)  # what the field needs has come
    chat.page.keyboard.press("ArrowDown")
    expect(chat.page.get_by_role("link", name="hello")).to_be_focused()
    chat.page.keyboard.press(",")
    expect(chat.page.get_by_role("dialog", name="Settings")).to_be_visible()
    chat.page.keyboard.press("Escape")
    chat.page.keyboard.press("n")
    chat.page.wait_for_url(chat.url + "/")


def test_a_letter_key_is_known_by_its_place_while_hangul_is_on(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url).wait_until_ready()
    leave_the_composer(chat)
    press = """([key, init]) => document.getElementById("scroller").dispatchEvent(
      new KeyboardEvent("keydown", { key, code: "KeyM", bubbles: true, cancelable: true, ...init }))"""
    chat.page.evaluate(press, ["ㅡ", {"isComposing": True}])
    chat.page.evaluate(press, ["Process", {"keyCode": 229}])
    expect(chat.composer).not_to_be_focused()
    chat.page.evaluate(press, ["ㅡ", {}])
    expect(chat.composer).to_be_focused()


def test_the_text_size_is_chosen_and_stays(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url, width=360, height=740).wait_until_ready()
    chat.send_message("hello")
    chat.wait_for_reply()
    assert chat.style(".user .body", "font-size") == "16px"
    sheet = open_settings(chat)
    sheet.get_by_role("button", name="Larger").click()
    assert chat.style(".user .body", "font-size") == "20px"
    chat.assert_no_sideways_scroll()
    chat.page.keyboard.press("Escape")
    chat.reload()
    assert chat.style(".user .body", "font-size") == "20px"
    assert chat.style(".quiet", "font-size") == "15.625px"
    chat.assert_no_sideways_scroll()
