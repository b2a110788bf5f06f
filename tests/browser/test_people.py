"""Two people of a house: what is each one's, and what they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat_page import ChatPage
from tests.browser.test_devices import UNAUTHORIZED, open_as_owner
from tests.web.serving import Served
from web.pairing import Invited

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]


@pytest.fixture
def minji(browser: Browser) -> Iterator[Callable[[Served, str], ChatPage]]:
    """Opens the page on another device, with a code that the owner's sheet shows."""
    context = browser.new_context(viewport={"width": 360, "height": 740}, locale="en-GB")

    def open_page(served: Served, code: str) -> ChatPage:
        page = ChatPage(context.new_page(), served.lan_url)
        page.expect_complaint(UNAUTHORIZED)
        page.open(f"/#pair={code}")
        expect(page.composer).to_be_focused()
        return page

    yield open_page
    context.close()


def test_a_conversation_is_its_persons_until_they_share_it(
    serve: Serve, open_tab: OpenTab, minji: Callable[[Served, str], ChatPage]
) -> None:
    served = serve(lan=True)
    owner = open_as_owner(open_tab, served)
    owner.page.get_by_role("button", name="Connect a device").click()
    sheet = owner.page.get_by_role("dialog")
    name = sheet.get_by_role("textbox", name="Name of the new person")
    first = sheet.locator(".invitation-code").inner_text()
    name.fill("Minji")
    name.press("Enter")
    code = sheet.locator(".invitation-code")
    expect(code).not_to_have_text(first)
    hers = minji(served, re.sub(r"\D", "", code.inner_text()))
    expect(sheet.locator(".person-name", has_text="Minji")).to_be_visible()
    owner.page.keyboard.press("Escape")

    hers.wait_until_ready()
    hers.send_message("the soup needs salt")
    hers.wait_for_reply()
    rows = owner.page.locator("#conversations .row")
    expect(rows).to_have_count(0)

    hers.page.get_by_role("button", name="Show conversations").click()
    hers.page.get_by_role("button", name="More for").click()
    hers.page.get_by_role("menuitem", name="Share with the house").click()
    expect(hers.page.get_by_role("radio", name="Only me")).to_be_checked()
    hers.page.get_by_role("radio", name="Everybody can read it").check()
    expect(hers.page.get_by_text("Saved.")).to_be_visible()
    hers.assert_no_sideways_scroll()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Minji")
    expect(rows.get_by_role("button")).to_have_count(0)
    rows.get_by_role("link").click()
    expect(owner.page.locator(".right-line")).to_have_text("Minji shares this: you can read it.")
    expect(owner.composer).to_be_hidden()
    expect(owner.page.get_by_role("button", name="Edit this message")).to_be_hidden()

    hers.page.get_by_role("radio", name="Everybody can write in it").check()
    expect(owner.composer).to_be_visible()
    owner.send_message("and pepper")
    owner.wait_for_reply()
    hers.page.keyboard.press("Escape")
    expect(hers.page.locator(".message.user")).to_have_count(2)
    expect(hers.page.locator(".message.user .who").last).to_have_text("The owner")
    expect(hers.page.locator(".message.user .who").last).to_be_visible()
    expect(hers.page.locator(".right-line")).to_contain_text("Everybody in the house")

    hers.page.get_by_role("button", name="Show conversations").click()
    hers.page.get_by_role("button", name="More for").click()
    hers.page.get_by_role("menuitem", name="Share with the house").click()
    hers.page.get_by_role("radio", name="Only me").check()
    expect(owner.page.locator(".right-line")).to_have_text("This conversation is not shared any more.")
    expect(owner.page.locator(".message")).to_have_count(0)
    expect(owner.composer).to_be_hidden()
    expect(rows).to_have_count(0)
    owner.expect_complaint("status of 404")
    owner.page.reload()
    expect(owner.page.get_by_role("heading", level=1)).to_have_text("Not found")


def test_only_whose_it_is_is_offered_to_bring_back_a_shared_conversation(
    serve: Serve, open_tab: OpenTab, minji: Callable[[Served, str], ChatPage]
) -> None:
    served = serve(lan=True)
    owner = served.owner()
    accepted, _ = served.ready_client(owner).say_and_wait("stay warm")
    chat = f"/api/conversations/{accepted['conversation_id']}"
    served.post(f"{chat}/share", {"shared": "read"}, Cookie=owner)
    hers = minji(served, served.sharing.codes.issue(Invited(None, "Minji")))
    hers.page.goto(f"{served.lan_url}/c/{accepted['conversation_id']}")
    hers.wait_until_connected()
    served.post(f"{chat}/delete", {}, Cookie=owner)
    expect(hers.page.locator("#toast")).to_contain_text("This conversation was deleted.")
    expect(hers.page.locator("#toast").get_by_role("button")).to_be_hidden()
    with hers.page.expect_navigation():
        served.post(f"{chat}/restore", {}, Cookie=owner)
    expect(hers.page.locator(".message")).to_have_count(2)
