"""Two browsers on two addresses of one machine: the owner's, and a device that is let in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Pace
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

UNAUTHORIZED = "status of 401"
HTML = {"content-type": "text/html"}


@pytest.fixture
def phone(browser: Browser) -> Iterator[Callable[[], ChatPage]]:
    """Another device: a context of its own shares nothing with the owner's."""
    contexts = []
    tabs: list[ChatPage] = []

    def phone(url: str) -> ChatPage:
        context = browser.new_context(viewport={"width": 360, "height": 740}, locale="en-GB")
        contexts.append(context)
        tabs.append(ChatPage(context.new_page(), url))
        tabs[-1].expect_complaint(UNAUTHORIZED)
        return tabs[-1]

    yield phone
    complaints = [complaint for tab in tabs for complaint in tab.complaints()]
    for context in contexts:
        context.close()
    assert complaints == []


Phone = Callable[[str], ChatPage]


def open_as_owner(open_tab: OpenTab, served: Served) -> ChatPage:
    """Open the link that the terminal prints."""
    tab = open_tab(served.url, "/health")
    tab.expect_complaint(UNAUTHORIZED)
    tab.page.goto(served.owner_url)
    expect(tab.composer).to_be_focused()
    assert tab.page.url == served.url + "/"
    return tab


def new_code(owner: ChatPage) -> str:
    """Open the sheet, and read the code from it."""
    owner.page.get_by_role("button", name="Connect a device").click()
    code = owner.page.locator(".invitation-code")
    expect(code).to_be_visible()
    return re.sub(r"\D", "", code.inner_text())


def type_code(page: Page, code: str) -> None:
    page.get_by_role("textbox", name="Pairing code").fill(code)
    page.get_by_role("button", name="Connect").click()


def test_the_owners_phone_that_scanned_the_code_chats_and_the_computer_watches(
    serve: Serve, open_tab: OpenTab, phone: Phone
) -> None:
    pace = Pace(60)
    served = serve(lambda prompt: "abcdefghij " * 9, pace=pace, window=4096, lan=True)
    owner = open_as_owner(open_tab, served)
    first = new_code(owner)
    sheet = owner.page.get_by_role("dialog")
    sheet.get_by_role("combobox", name="Whose device is it?").select_option(label="Mine")
    expect(sheet).to_contain_text("sees all your conversations")
    code = re.sub(r"\D", "", sheet.locator(".invitation-code").inner_text())
    assert code != first
    expect(sheet.get_by_role("img", name="QR code")).to_be_visible()
    expect(sheet).to_contain_text(served.lan_url)
    expect(sheet).to_contain_text(re.compile(r"good for [12]:\d\d"))
    expect(sheet).to_contain_text("everyone on this network can read along")

    guest = phone(served.lan_url)
    guest.open(f"/#pair={code}")
    expect(guest.composer).to_be_focused()
    assert guest.page.url == served.lan_url + "/"
    expect(sheet).to_contain_text("Connected: Chrome on Linux.")
    owner.page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()

    guest.send_message("from the phone")
    guest.wait_for_text("abc")
    owner.open_conversation("from the phone")
    owner.wait_for_text("abc")
    owner.stop()
    assert "stopped" in owner.wait_for_reply(meanwhile=pace.let).line
    assert guest.wait_for_reply() == owner.reply()

    asked = guest.requests + owner.requests
    assert not any(code in each.partition("#")[0] for each in asked)
    assert "pair" not in guest.page.evaluate("() => JSON.stringify([document.cookie, {...localStorage}])")
    guest.reload()
    expect(guest.composer).to_be_visible()


def test_a_code_is_typed_where_none_can_be_scanned(serve: Serve, open_tab: OpenTab, phone: Phone) -> None:
    served = serve(lan=True)
    owner = open_as_owner(open_tab, served)
    code = new_code(owner)
    first, second = phone(served.lan_url), phone(served.lan_url)
    for device in (first, second):
        device.expect_complaint("status of 403")
        device.open("/c/whatever")
        expect(device.page.get_by_role("heading", level=1)).to_have_text("Connect this device")
        device.assert_no_sideways_scroll()
    words = first.page.get_by_role("status")
    type_code(first.page, "1234 567")
    expect(words).to_have_text("A code has eight digits; this has 7.")
    type_code(first.page, "ㅁㅊㅇ")
    expect(words).to_have_text("A code has digits only, eight of them.")
    type_code(first.page, str((int(code) + 1) % 10**8).zfill(8))
    expect(words).to_contain_text("not a code of this server")
    type_code(first.page, f"{code[:4]} {code[4:]}")
    expect(first.composer).to_be_visible()
    second.page.goto(f"{served.lan_url}/c/whatever#pair={code}")
    expect(second.page.get_by_role("status")).to_contain_text("already used")
    assert second.page.url == f"{served.lan_url}/c/whatever"
    owner.page.get_by_role("button", name="New code").click()
    expect(owner.page.locator(".invitation.over")).to_have_count(0)
    expect(owner.page.locator(".device")).to_have_count(2)
    second.page.get_by_role("textbox", name="Pairing code").press_sequentially(
        re.sub(r"\D", "", owner.page.locator(".invitation-code").inner_text())
    )
    second.page.keyboard.press("Enter")
    expect(second.composer).to_be_visible()


def test_the_owners_link_works_in_a_second_browser_and_in_a_guests(
    serve: Serve, open_tab: OpenTab, phone: Phone
) -> None:
    served = serve(lan=True)
    open_as_owner(open_tab, served)
    other = phone(served.url)
    other.expect_complaint("WebSocket connection to")  # the guest's session ends under its page
    other.page.goto(f"{served.url}/#pair={served.sharing.codes.issue()}")
    expect(other.composer).to_be_visible()
    expect(other.page.locator('[data-action="connect-device"]')).to_have_count(0)
    other.page.goto(served.owner_url)
    expect(other.page.locator('[data-action="connect-device"]')).to_have_count(1)
    assert other.page.url == served.url + "/"


def test_a_code_is_not_used_up_by_a_device_that_is_in_already(serve: Serve, phone: Phone) -> None:
    served = serve(lan=True)
    guest = phone(served.lan_url)
    guest.open(f"/#pair={served.sharing.codes.issue()}")
    expect(guest.composer).to_be_visible()
    code = served.sharing.codes.issue()
    guest.page.goto("about:blank")
    guest.open(f"/#pair={code}")
    expect(guest.composer).to_be_focused()
    assert guest.page.url == served.lan_url + "/"
    assert served.join(code=code).status_code == 204


def test_the_owner_names_and_disconnects_a_phone_and_the_phone_says_so_and_comes_back(
    serve: Serve, open_tab: OpenTab, phone: Phone
) -> None:
    served = serve(lan=True)
    owner = open_as_owner(open_tab, served)
    guest = phone(served.lan_url)
    guest.expect_complaint("WebSocket connection to")
    guest.open(f"/#pair={served.sharing.codes.issue()}")
    expect(guest.composer).to_be_focused()
    guest.write("half a thought")

    new_code(owner)
    sheet = owner.page.get_by_role("dialog")
    rows = sheet.locator(".device")
    expect(rows).to_have_count(2)
    own = rows.filter(has_text="this browser")
    expect(own.get_by_role("button", name="Disconnect")).to_have_count(0)
    sheet.get_by_role("button", name="Rename Chrome on Linux").first.click()
    field = sheet.get_by_role("textbox", name="New name")
    field.fill("Nobody’s")
    field.press("Escape")
    expect(field).to_have_count(0)
    row = rows.filter(has_not_text="this browser")
    row.get_by_role("button", name="Rename").click()
    field.fill("엄마 폰")
    field.press("Enter")
    expect(row).to_contain_text("엄마 폰")
    expect(row.get_by_role("button", name="Rename 엄마 폰")).to_be_focused()
    expect(row).to_contain_text("here now")

    row.get_by_role("button", name="Disconnect").click()
    question = sheet.get_by_role("group", name="Disconnect 엄마 폰?")
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    owner.page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(sheet).to_be_visible()
    expect(row.get_by_role("button", name="Disconnect")).to_be_focused()
    owner.page.keyboard.press("Enter")
    question.get_by_role("button", name="Disconnect").click()
    expect(guest.page.locator("#connection")).to_contain_text("not connected any more", timeout=3_000)
    expect(rows).to_have_count(1)
    expect(guest.send_button).to_be_disabled()
    expect(guest.composer).to_have_value("half a thought")
    guest.write("a whole thought")
    guest.assert_no_sideways_scroll()

    guest.page.get_by_role("link", name="Connect again").click()
    expect(guest.page.get_by_role("heading", level=1)).to_have_text("Connect this device")
    type_code(guest.page, served.sharing.codes.issue())
    expect(guest.composer).to_have_value("a whole thought")
    expect(rows).to_have_count(2)


def test_a_link_on_another_site_leads_a_device_that_is_in_to_the_page(serve: Serve, phone: Phone) -> None:
    served = serve(lan=True)
    guest = phone(served.lan_url)
    guest.open(f"/#pair={served.sharing.codes.issue()}")
    expect(guest.composer).to_be_focused()
    link = f'<a href="{served.lan_url}/#top">home</a>'
    guest.page.route(
        "http://elsewhere.test/", lambda route: route.fulfill(body=link, content_type="text/html")
    )
    guest.page.goto("http://elsewhere.test/")
    with guest.page.expect_response(served.lan_url + "/") as first:
        guest.page.get_by_role("link").click()
    assert first.value.status == 401  # such a request comes without the cookie
    expect(guest.composer).to_be_focused()
