"""The chat page in the words of the person who uses it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import ConsoleMessage, Locator, Page, expect

WAIT_S = 20.0
MESSAGES = """() => [...document.querySelectorAll('.transcript .message')].map((message) => ({
  mine: message.classList.contains('user'),
  status: message.dataset.status,
  text: [...message.querySelectorAll('.body, .tail')].map((part) => part.innerText).join('\\n').trim(),
  line: message.querySelector('.quiet')?.innerText ?? '',
  outcome: message.querySelector('.outcome')?.innerText ?? '',
}))"""
RECORD = """() => {
  const shown = () => [...document.querySelectorAll('.transcript .message')].map((m) => m.textContent).join();
  window.recordedStates = [];
  new MutationObserver(() => window.recordedStates.push(shown()))
    .observe(document.getElementById('transcript'), { childList: true, subtree: true, characterData: true });
}"""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is on the page. `line` is the quiet line under it, `outcome` what went wrong."""

    mine: bool
    status: str
    text: str
    line: str
    outcome: str

    @property
    def is_running(self) -> bool:
        return self.status in ("pending", "running")


class ChatPage:
    """One tab. Whatever it complains about fails the test, unless `expect_complaint` named it."""

    def __init__(self, page: Page, url: str, wait_s: float = WAIT_S) -> None:
        self.page = page
        self.url = url
        self.requests: list[str] = []
        self._wait_s = wait_s
        self._complaints: list[str] = []
        self._expected: list[str] = []
        page.set_default_timeout(wait_s * 1000)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._complaints.append(f"page error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))

    # Going somewhere

    def open(self, path: str = "/") -> ChatPage:
        """Open a page of the server, and wait until it is connected."""
        self.page.goto(self.url + path)
        return self.wait_until_connected()

    def reload(self) -> None:
        """Press reload."""
        self.page.reload()
        self.wait_until_connected()

    def wait_until_connected(self) -> ChatPage:
        """Wait until the page has said something about the model, which it does once it is connected."""
        expect(self.page.locator("#connection")).to_be_hidden(timeout=self._wait_s * 1000)
        return self

    def wait_until_ready(self) -> ChatPage:
        """Wait until the model is loaded."""
        expect(self.page.locator("#progress")).to_be_hidden(timeout=self._wait_s * 1000)
        return self

    def new_chat(self) -> None:
        """Press New chat."""
        self.page.get_by_role("link", name="New chat").click()
        self.page.wait_for_url(self.url + "/")

    def open_conversation(self, title: str) -> None:
        """Choose a conversation from the list."""
        self._row(title).get_by_role("link").click()
        expect(self.page.get_by_role("heading", level=1)).to_have_text(title)

    # Writing

    @property
    def composer(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def send_button(self) -> Locator:
        return self.page.get_by_role("button", name="Send")

    @property
    def stop_button(self) -> Locator:
        return self.page.locator("#stop")

    def write(self, text: str) -> None:
        """Put text into the composer."""
        self.composer.fill(text)

    def press(self, keys: str) -> None:
        """Press keys in the composer."""
        self.composer.press(keys)

    def send_message(self, text: str) -> None:
        """Write a message and press Enter once Send is there."""
        self.write(text)
        expect(self.send_button).to_be_enabled()
        self.press("Enter")
        expect(self.composer).to_have_value("")

    def stop(self) -> None:
        """Press Stop."""
        self.stop_button.click()

    # Reading

    def messages(self) -> list[Message]:
        """What the transcript shows now."""
        return [Message(**message) for message in self.page.evaluate(MESSAGES)]

    def reply(self) -> Message:
        """The last reply as it is now."""
        return next(message for message in reversed(self.messages()) if not message.mine)

    def wait_for(
        self, what: str, condition: Callable[[Message], bool], meanwhile: Callable[[], None] = lambda: None
    ) -> Message:
        """Wait until the last reply is as it should be, and do something again and again."""
        deadline = time.monotonic() + self._wait_s
        while time.monotonic() < deadline:
            shown = self.messages()
            if shown and not shown[-1].mine and condition(shown[-1]):
                return shown[-1]
            meanwhile()
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{what} did not come; the page shows {self.messages()}")

    def wait_for_text(self, text: str = "") -> Message:
        """Wait until the last reply shows some text, or this one."""
        return self.wait_for(f"text {text!r}", lambda reply: text in reply.text and bool(reply.text))

    def wait_for_reply(self, meanwhile: Callable[[], None] = lambda: None) -> Message:
        """Wait until the last reply is finished."""
        return self.wait_for("a finished reply", lambda reply: not reply.is_running, meanwhile)

    def assert_message_text(self, *texts: str) -> None:
        """The transcript consists of messages with these texts."""
        deadline = time.monotonic() + self._wait_s
        while (shown := [m.text for m in self.messages()]) != list(texts) and time.monotonic() < deadline:
            self.page.wait_for_timeout(50)
        assert shown == list(texts)

    def record_states(self) -> None:
        """From now on keep every state that the transcript is in."""
        self.page.evaluate(RECORD)

    def recorded_states(self) -> list[str]:
        """The states since `record_states`."""
        states: list[str] = self.page.evaluate("() => window.recordedStates")
        return states

    # Branches

    def message(self, number: int) -> Locator:
        """A message by its place in the transcript, from 0; -1 is the last."""
        return self.page.locator(".transcript > .message").nth(number)

    def press_action(self, number: int, name: str) -> None:
        """Press one of a message's own buttons."""
        message = self.message(number)
        message.hover()
        message.get_by_role("button", name=name).click()

    @property
    def edit_box(self) -> Locator:
        return self.page.get_by_role("textbox", name="Edit your message")

    def edit(self, number: int, text: str) -> None:
        """Rewrite a message and send it."""
        self.press_action(number, "Edit this message")
        self.edit_box.fill(text)
        self.edit_box.press("Enter")
        expect(self.edit_box).to_have_count(0)

    def versions(self) -> list[str]:
        """The places such as 2/3 that are in sight, from the top."""
        return self.page.locator(".version-place").all_inner_texts()

    # Conversations

    def conversations(self) -> list[str]:
        """The titles in the list, newest first."""
        return self.page.locator("#conversations .row-title").all_inner_texts()

    def rename(self, title: str, to: str) -> None:
        """Give a conversation another name."""
        self.act(title, "Rename")
        field = self.page.get_by_role("textbox", name="New name")
        field.fill(to)
        field.press("Enter")
        expect(self._row(to)).to_be_visible()

    def delete(self, title: str) -> None:
        """Delete a conversation; it can still be brought back."""
        self.act(title, "Delete")
        expect(self._row(title)).to_have_count(0)

    def _row(self, title: str) -> Locator:
        return self.page.locator("#conversations .row").filter(has=self.page.get_by_title(title, exact=True))

    def act(self, title: str, action: str) -> None:
        """Choose something from the menu of a conversation in the list."""
        self.page.bring_to_front()  # in the background a page draws rarely, and is waited for
        row = self._row(title)
        row.hover()
        row.get_by_role("button", name="More for").click()
        self.page.get_by_role("menuitem", name=action).click()

    def undo(self) -> None:
        """Take back what was just done."""
        self.page.locator("#toast").get_by_role("button", name="Undo").click()

    def groups(self) -> dict[str, list[str]]:
        """The headings of the list, each with its titles."""
        script = """() => Object.fromEntries([...document.querySelectorAll('#conversations .group')].map(
          (group) => [group.querySelector('h2').textContent,
            [...group.querySelectorAll('.row-title')].map((title) => title.textContent)]))"""
        shown: dict[str, list[str]] = self.page.evaluate(script)
        return shown

    @property
    def search_field(self) -> Locator:
        return self.page.locator("#finder").get_by_role("searchbox")

    def results(self) -> Locator:
        """What the sidebar shows of a search."""
        return self.page.locator(".found-place .found-message")

    # Looking

    def style(self, selector: str, name: str) -> str:
        """A computed style of the first element that this CSS selects."""
        self.page.locator(selector).first.wait_for(state="attached")
        # Found and read at once: where a transcript comes anew between, an element has no style.
        script = (
            "([selector, name]) => getComputedStyle(document.querySelector(selector)).getPropertyValue(name)"
        )
        value: str = self.page.evaluate(script, [selector, name])
        return value

    def assert_no_sideways_scroll(self) -> None:
        """Nothing is wider than the window."""
        script = """() => [...document.querySelectorAll('html, body, #scroller')]
          .filter((element) => element.scrollWidth > element.clientWidth).map((element) => element.tagName)"""
        assert self.page.evaluate(script) == []

    # Complaints

    def expect_complaint(self, pattern: str) -> None:
        """The browser's console may say this in this test."""
        self._expected.append(pattern)

    def complaints(self) -> list[str]:
        """What the console said without being expected: errors, Content-Security-Policy among them."""
        return [c for c in self._complaints if not any(re.search(p, c) for p in self._expected)]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._complaints.append(f"console {message.type}: {message.text}")
