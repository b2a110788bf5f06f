"""A model that thinks before it answers, and one without a system role, as people see them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Pace
from tests.inference.families import GEMMA, QWEN3
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]

THOUGHT = (
    "The person asks what to see in Gangneung in one day.\n\n1. The beach at Anmok, with its coffee street.\n"
    "2. Ojukheon, where Yulgok was born: <b>closed on Mondays?</b>\n\n"
    "한 줄로 답하면 될까? A short answer is best."
)
ANSWER = "Start at **Ojukheon** in the morning, then walk along the beach to the coffee street at Anmok."
WIDTHS = {"desk": (1280, 800), "phone": (360, 740)}


def pictures(chat: ChatPage, name: str) -> None:
    """`ONDOL_SCREENSHOTS` names the folder that pictures go to, in both widths and themes."""
    if (folder := os.environ.get("ONDOL_SCREENSHOTS")) is None:
        return
    for size, (width, height) in WIDTHS.items():
        chat.page.set_viewport_size({"width": width, "height": height})
        for theme in ("light", "dark"):
            chat.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            chat.page.screenshot(path=Path(folder) / f"{name}-{size}-{theme}.png", animations="disabled")
    chat.page.emulate_media(color_scheme="light")
    chat.page.set_viewport_size({"width": 1280, "height": 800})


def test_what_a_model_thinks_is_folded_and_can_be_opened_while_it_runs(
    serve: Serve, open_tab: OpenTab
) -> None:
    pace = Pace(60)
    served = serve(
        lambda prompt: f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}", template=QWEN3, pace=pace, window=4_096
    )
    chat = open_tab(served.url)
    chat.send_message("One day in Gangneung?")
    fold = chat.page.locator(".reply .reasoning")
    summary, text = fold.locator("summary"), fold.locator(".reasoning-text")
    expect(summary).to_have_text("Thinking…")
    expect(text).to_be_hidden()
    expect(chat.page.locator(".waiting")).to_be_hidden()
    pictures(chat, "thinking")
    summary.click()
    expect(text).to_be_visible()
    while "closed on Mondays?</b>" not in text.inner_text():
        pace.let(9)
        chat.page.wait_for_timeout(20)
    pictures(chat, "thinking-open")
    pace.let_all()
    reply = chat.wait_for_reply()
    assert reply.text == ANSWER.replace("**", "")
    expect(summary).to_contain_text("Thought for")
    expect(text).to_be_visible()
    assert text.inner_text() == THOUGHT
    pictures(chat, "thought-open")
    chat.reload()
    expect(summary).to_contain_text("Thought for")
    expect(text).to_be_hidden()
    assert text.text_content() == THOUGHT
    chat.assert_no_sideways_scroll()
    pictures(chat, "thought")


def test_a_model_without_a_system_role_says_where_the_system_text_stands(
    serve: Serve, open_tab: OpenTab
) -> None:
    template = GEMMA.replace("start_of_turn", "|im_start|").replace("end_of_turn", "|im_end|")
    chat = open_tab(serve(lambda prompt: "Hi.", template=template, opening="model\n").url)
    chat.send_message("hello")
    chat.wait_for_reply()
    chat.reload()
    summary = chat.page.locator(".system summary")
    expect(summary).to_have_text("System text · in the first message")
    summary.click()
    expect(chat.page.locator(".system-why")).to_contain_text("This model has no system role")
    pictures(chat, "folded-system")
