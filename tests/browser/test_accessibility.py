"""With a keyboard, a screen reader, large text or little motion."""

from __future__ import annotations

import re
from collections.abc import Callable

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
    chat.expect_complaint("WebSocket connection to")
    chat.send_message("hello")
    chat.wait_for_reply()
    row = chat.page.locator("#conversations .row")
    row.hover()
    row.get_by_role("button", name="Rename").click()
    assert_accessible(chat.page)
    chat.page.keyboard.press("Escape")
    row.hover()
    row.get_by_role("button", name="Delete").click()
    assert_accessible(chat.page)
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
    chat.page.goto(f"{served.url}/c/nowhere")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Not found")
    assert_accessible(chat.page)
