"""A browser, tabs in it, and servers to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.browser.browser import NoBrowser, launch
from tests.browser.chat_page import WAIT_S, ChatPage
from tests.browser.process import Ondol
from tests.web.conftest import echo
from tests.web.serving import Served

# Two workers share two cores here: what is expected may take a while, and is looked for all the time.
expect.set_options(timeout=1_000 * WAIT_S)

# A package's fixture, not a session's: Playwright's event loop stays in this thread while it is open, and
# tests elsewhere start their own.


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser of all these tests."""
    with sync_playwright() as playwright:
        try:
            started = launch(playwright.chromium)
        except NoBrowser as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One person's browser: cookies and storage are shared by all tabs of a test."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme="light", locale="en-GB"
    )
    yield context
    context.close()


@pytest.fixture
def open_tab(context: BrowserContext) -> Iterator[Callable[..., ChatPage]]:
    """Opens tabs; at the end none of them may have complained."""
    tabs: list[ChatPage] = []

    def open_tab(
        url: str, path: str = "/", *, width: int = 1280, height: int = 800, wait_s: float = WAIT_S
    ) -> ChatPage:
        tab = ChatPage(context.new_page(), url, wait_s)
        tabs.append(tab)
        tab.page.set_viewport_size({"width": width, "height": height})
        return tab.open(path)

    yield open_tab
    complaints = [complaint for tab in tabs for complaint in tab.complaints()]
    assert complaints == []


@pytest.fixture(scope="module")
def ondol(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ondol]:
    """The real server with the real model, from the user's own model folder: it is fetched once."""
    server = Ondol(tmp_path_factory.mktemp("ondol"))
    server.start()
    yield server
    server.end()


@pytest.fixture
def serve(tmp_path: Path, context: BrowserContext) -> Iterator[Callable[..., Served]]:
    """Starts servers with a scripted model on one data folder; all are ended after the test.

    Pages are closed first: a server that ends under an open page is another matter, and has its own tests.
    """
    started: list[Served] = []

    def start(reply: Callable[[str], str] = echo, **options: Any) -> Served:
        served = Served(tmp_path, reply, **options)
        started.append(served)
        return served

    yield start
    for page in context.pages:
        page.close()
    for served in started:
        served.close()
