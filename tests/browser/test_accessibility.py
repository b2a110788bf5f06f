"""With a keyboard, a screen reader, large text or little motion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import assert_accessible
from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Pace
from tests.inference.families import QWEN3
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

SETTLED_MS = 400  # what the last permits make is shown by then, and axe looks at a page that stands still
EVERYTHING = r"""# A heading
## Another
A paragraph with **strong**, *soft*, ~~gone~~, `code`, a [link](https://a.example/) and ![a picture](http://b.example/p.png).

> A quotation
> with two lines

1. one
2. two
   - nested
     - deeper

- [ ] to do
- [x] done

| left | middle | right |
|:-----|:------:|------:|
| a very long cell that makes the table wider than a narrow window | b | 1 |

```python
def greet(name: str) -> str:  # a comment
    return f"Hello, {name}! " + "a line that is so long that it has to scroll inside its own box " * 2
```

```
plain
```

Inline $x^2 + \sqrt{y}$ and

$$\sum_{i=1}^{n} a_i + b_1 + b_2 + b_3 + b_4 + b_5 + b_6 + b_7 + b_8 + b_9 + b_{10} + b_{11} + b_{12} = \frac{p}{q}$$

$\undefined{$

---

한국어도 있습니다.
"""  # noqa: E501


def test_an_empty_chat_has_nothing_that_axe_finds(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url).wait_until_ready()
    assert_accessible(chat.page)


def test_all_kinds_of_content_have_nothing_that_axe_finds(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace()
    pace.let(8_000)
    served = serve(
        lambda prompt: f"<think>\nA thought.\n</think>\n\n{EVERYTHING}",
        template=QWEN3,
        window=4_096,
        pace=pace,
    )
    chat = open_tab(served.url)
    chat.send_message("Everything, please")
    chat.wait_for_reply()
    chat.page.locator(".reasoning summary").click()
    while pace.acquire(blocking=False):
        pass
    chat.send_message("Once more")
    chat.wait_for("code", lambda reply: "plain" in reply.text, meanwhile=lambda: pace.let(25))
    chat.page.wait_for_timeout(SETTLED_MS)
    assert_accessible(chat.page)
    chat.stop()
    chat.wait_for_reply(meanwhile=pace.let)
    chat.page.locator("#model > summary").click()
    assert_accessible(chat.page)


def test_every_state_of_the_chrome_has_nothing_that_axe_finds(serve: Serve, open_tab: OpenTab) -> None:
    served = serve()
    chat = open_tab(served.url)
    chat.expect_complaint("WebSocket connection to|ERR_CONNECTION_REFUSED")
    chat.send_message("hello")
    chat.wait_for_reply()
    row = chat.page.locator("#conversations .row")
    row.hover()
    row.get_by_role("button", name="More for").click()
    expect(chat.page.get_by_role("menuitem", name="Rename")).to_be_focused()
    assert_accessible(chat.page)
    chat.page.get_by_role("menuitem", name="Rename").click()
    expect(chat.page.get_by_role("textbox", name="New name")).to_be_focused()
    assert_accessible(chat.page)
    chat.page.keyboard.press("Escape")
    chat.search_field.fill("hello")
    expect(chat.results()).to_have_count(2)
    assert_accessible(chat.page)
    chat.page.keyboard.press("Escape")
    chat.page.set_viewport_size({"width": 360, "height": 740})
    chat.page.get_by_role("button", name="Show conversations").click()
    assert_accessible(chat.page)
    chat.page.keyboard.press("Escape")
    chat.page.locator(".legend > summary").click()
    chat.write("too long " * 100)
    expect(chat.page.locator(".context.over")).to_be_visible()
    assert_accessible(chat.page)
    chat.write("short")
    expect(chat.page.locator(".context.over")).to_have_count(0)
    served.close()
    expect(chat.page.locator("#connection")).to_be_visible()
    chat.send_message("into the void")
    assert_accessible(chat.page)


def test_branches_and_the_box_of_a_message_have_nothing_that_axe_finds(
    serve: Serve, open_tab: OpenTab
) -> None:
    chat = open_tab(serve(window=4_096).url)
    chat.send_message("one")
    chat.wait_for_reply()
    chat.edit(0, "two")
    chat.wait_for_reply()
    assert_accessible(chat.page)
    chat.press_action(0, "Edit")
    expect(chat.edit_box).to_be_focused()
    assert_accessible(chat.page)
    chat.page.keyboard.press("Escape")
    expect(chat.edit_box).to_have_count(0)


@pytest.mark.parametrize("action", ["open-settings", "open-help"])
def test_the_sheets_have_nothing_that_axe_finds(serve: Serve, open_tab: OpenTab, action: str) -> None:
    chat = open_tab(serve().url)
    expect(chat.page.locator("#context-words")).to_be_visible()
    opener = chat.page.locator(f'[data-action="{action}"]').first
    opener.focus()
    opener.press("Enter")
    sheet = chat.page.get_by_role("dialog")
    expect(sheet.locator("select, dt").first).to_be_visible()
    assert_accessible(chat.page)
    chat.page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    expect(opener).to_be_focused()


def test_the_other_pages_have_nothing_that_axe_finds(serve: Serve, open_tab: OpenTab) -> None:
    served = serve(lan=True)
    chat = open_tab(served.url, "/health")
    chat.expect_complaint("status of 40[134]")
    chat.page.goto(served.url)
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Connect this device")
    assert_accessible(chat.page)
    chat.page.goto(served.owner_url)
    expect(chat.composer).to_be_focused()
    chat.page.get_by_role("button", name="Connect a device").click()
    expect(chat.page.locator(".invitation-code")).to_be_visible()
    assert_accessible(chat.page)
    chat.page.goto(f"{served.url}/search?q=hello")
    assert_accessible(chat.page)
    chat.page.goto(f"{served.url}/c/nowhere")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Not found")
    assert_accessible(chat.page)


SPOKEN = """() => {
  window.spoken = [];
  const note = (node) => {
    const place = (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement)?.closest('[aria-live], [role=status], [role=alert]');
    if (place && place.getAttribute('aria-live') !== 'off' && place.textContent.trim()) window.spoken.push(place.textContent.trim());
  };
  new MutationObserver((changes) => changes.forEach(({ target }) => note(target)))
    .observe(document.body, { childList: true, subtree: true, characterData: true });
}"""  # noqa: E501


def test_a_reply_is_announced_once_and_when_it_is_whole(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(60)
    chat = open_tab(serve(lambda prompt: "warm floors, warm feet " * 6, pace=pace, window=4_096).url)
    chat.wait_until_ready()
    chat.page.evaluate(SPOKEN)
    chat.send_message("go")
    for _ in range(8):
        pace.let(20)
        chat.page.wait_for_timeout(120)
    pace.let_all()
    chat.wait_for_reply()
    spoken = [text for text in chat.page.evaluate("() => window.spoken") if "warm floors" in text]
    assert spoken == [f"Reply finished. {'warm floors, warm feet ' * 6}".strip()]
    assert chat.page.locator("#announcer").get_attribute("aria-live") == "polite"


FOCUSED = """() => {
  const { activeElement: element } = document;
  if (element === document.body) return ['the window', false];
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const field = element.closest('.composer') ?? element;
  const outlined = outlineStyle !== 'none' && outlineWidth !== '0px';
  const shows = outlined || getComputedStyle(field).borderColor !== window.calmBorder;
  return [element.id || element.getAttribute('aria-label') || element.textContent.trim(), shows];
}"""
WINDOW = "the window"
CALM = "() => { window.calmBorder = getComputedStyle(document.querySelector('.composer')).borderColor; }"


def test_the_keyboard_reaches_everything_in_the_order_of_the_page(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    chat.send_message("hello")
    chat.wait_for_reply()
    chat.page.emulate_media(reduced_motion="reduce")
    chat.page.locator(".skip").focus()
    chat.page.evaluate(CALM)
    walked: list[list[str | bool]] = []
    while (focused := chat.page.evaluate(FOCUSED)) not in walked:
        walked.append(focused)
        chat.page.keyboard.press("Tab")
    assert walked.pop() == [WINDOW, False]
    names = [name for name, _ in walked]
    assert names[0] == "Skip to the message box"
    wanted = [
        "Ondol",
        "New chat",
        "Search in all messages",
        "Archived conversations",
        "hello",
        "More for “hello”",
    ]
    wanted += [
        "Dark theme",
        "scroller",
        "System text",
        "Copy this message",
        "Copy this reply",
        "What the bar means",
        "message",
    ]
    places = [names.index(name) for name in wanted]
    assert places == sorted(places)
    assert [name for name, shows in walked if not shows] == []
    chat.page.locator(".skip").press("Enter")
    expect(chat.composer).to_be_focused()


def test_escape_closes_what_is_open_and_focus_goes_back(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    expect(chat.page.locator("#context-words")).to_be_visible()
    summary = chat.page.locator("#model > summary")
    for opener in (summary, chat.page.locator(".legend > summary")):
        opener.focus()
        opener.press("Enter")
        expect(chat.page.locator(".menu[open]")).to_have_count(1)
        chat.page.keyboard.press("Escape")
        expect(chat.page.locator(".menu[open]")).to_have_count(0)
        expect(opener).to_be_focused()
    chat.page.set_viewport_size({"width": 360, "height": 740})
    opener = chat.page.get_by_role("button", name="Show conversations")
    opener.press("Enter")
    expect(chat.page.get_by_role("link", name="Ondol")).to_be_focused()
    chat.page.keyboard.press("Escape")
    expect(opener).to_be_focused()


@pytest.mark.parametrize(
    ("width", "height"), [(640, 400), (320, 256), (360, 360)], ids=["200 %", "400 %", "phone with keyboard"]
)
def test_large_text_and_low_windows_cut_nothing_off(
    serve: Serve, open_tab: OpenTab, width: int, height: int
) -> None:
    chat = open_tab(serve(lambda prompt: EVERYTHING, window=4_096).url, width=width, height=height)
    chat.send_message("hello")
    chat.wait_for_reply()
    chat.assert_no_sideways_scroll()
    chat.write("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten")
    for visible in (chat.composer, chat.send_button, chat.page.locator("#title")):
        expect(visible).to_be_in_viewport(ratio=1)
    assert chat.page.locator("#scroller").evaluate("(element) => element.clientHeight") > 40
    chat.page.locator(".reply .quiet").scroll_into_view_if_needed()
    expect(chat.page.locator(".reply .quiet")).to_be_in_viewport()


def test_little_motion_is_none(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace(60)
    chat = open_tab(serve(lambda prompt: "abc " * 50, pace=pace, window=4_096).url)
    chat.page.emulate_media(reduced_motion="reduce")
    chat.send_message("go")
    chat.wait_for_text("abc")
    chat.page.set_viewport_size({"width": 360, "height": 740})
    chat.page.get_by_role("button", name="Show conversations").click()
    running = "() => document.getAnimations().map((each) => [each.animationName ?? each.transitionProperty, each.effect.getComputedTiming().duration])"  # noqa: E501
    assert [name for name, duration in chat.page.evaluate(running) if duration] == []
    pace.let_all()
    chat.wait_for_reply()
