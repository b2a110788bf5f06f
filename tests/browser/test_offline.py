"""The server or the network is away; and the page as an installed app."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.chat_page import ChatPage
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

GONE = "WebSocket connection to|net::ERR_"
KEPT = """async () => {
  const names = await caches.keys();
  const requests = await Promise.all(names.map(async (name) => (await caches.open(name)).keys()));
  return requests.flat().map(({ url }) => new URL(url).pathname);
}"""


def test_a_page_says_that_the_server_cannot_be_reached_and_comes_back(
    serve: Serve, open_tab: OpenTab
) -> None:
    served = serve()
    chat = open_tab(served.url)
    chat.expect_complaint(GONE)
    chat.send_message("a secret")
    chat.wait_for_reply()
    chat.page.evaluate("() => navigator.serviceWorker.ready")
    chat.reload()
    served.close()
    chat.page.reload()
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Ondol cannot be reached")
    assert_accessible(chat.page)
    kept = chat.page.evaluate(KEPT)
    assert kept
    assert all(path.startswith("/static/") for path in kept)
    serve(port=served.port)
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("a secret")
    chat.assert_message_text("a secret", "a secret")


def test_a_device_without_a_network_says_so_at_once(
    serve: Serve, open_tab: OpenTab, context: BrowserContext
) -> None:
    chat = open_tab(serve().url)
    chat.expect_complaint(GONE)
    expect(chat.page.locator("#context-words")).to_be_visible()
    context.set_offline(True)
    expect(chat.page.get_by_text("This device is offline")).to_be_visible()
    context.set_offline(False)
    chat.wait_until_connected()


def test_the_page_can_be_installed(serve: Serve, open_tab: OpenTab, context: BrowserContext) -> None:
    chat = open_tab(serve().url)
    chat.page.evaluate("() => navigator.serviceWorker.ready")
    devtools = context.new_cdp_session(chat.page)
    manifest = devtools.send("Page.getAppManifest")
    assert manifest["errors"] == []
    assert manifest["url"].endswith("/manifest.webmanifest")
    errors = devtools.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert [error["errorId"] for error in errors if error["errorId"] != "in-incognito"] == []
