"""The pages beside the chats: tokens, status and the glossary, each as a person meets it."""

from __future__ import annotations

import csv
from collections.abc import Callable

from playwright.sync_api import Browser, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Pace
from tests.web.serving import Served

Serve = Callable[..., Served]
OpenTab = Callable[..., ChatPage]


def test_somebody_compares_how_two_lines_are_cut(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url).wait_until_ready()
    page = chat.page
    more = page.locator(".more > summary")
    more.focus()
    more.press("Enter")
    expect(page.get_by_role("link", name="Tokens")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Tokens")).to_be_hidden()
    expect(more).to_be_focused()
    more.press("Enter")
    page.get_by_role("link", name="Tokens").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tokens")
    box = page.get_by_role("textbox", name="Text")
    box.fill("warm floor")
    expect(page.locator(".totals td").first).to_have_text("10")
    box.press("End")
    box.press_sequentially("\n온돌 <b>")
    expect(page.locator(".whole")).to_have_text(["온", "돌"])
    expect(page.locator(".totals td").first).to_have_text("20")
    expect(box).to_be_focused()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as CSV").click()
    with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == ["warm floor", "온돌 <b>"]
    assert_accessible(page)
    page.set_viewport_size({"width": 360, "height": 740})
    chat.assert_no_sideways_scroll()


def test_without_a_script_the_form_and_the_links_do(serve: Serve, browser: Browser) -> None:
    served = serve()
    served.ready_client()
    with browser.new_context(java_script_enabled=False, locale="ko-KR") as context:
        page = context.new_page()
        page.goto(served.url)
        page.locator(".more > summary").click()
        page.get_by_role("link", name="토큰", exact=True).click()
        page.get_by_role("textbox", name="글").fill("=배")
        page.get_by_role("button", name="토큰으로 나누기").click()
        expect(page.locator(".totals td").first).to_have_text("4")
        expect(page.get_by_role("textbox", name="글")).to_have_value("=배")
        page.get_by_role("link", name="상태", exact=True).click()
        expect(page.get_by_text("새로 고치면 새 숫자가 보여요.")).to_be_visible()
        expect(page.get_by_role("button", name="멈춰 두기")).to_be_hidden()


def test_somebody_watches_a_reply_on_the_status_page(serve: Serve, open_tab: OpenTab) -> None:
    pace = Pace()
    pace.let(20)
    chat = open_tab(serve(lambda prompt: "abcdefghij" * 4, pace=pace).url)
    chat.send_message("A trip to Gangneung")
    chat.wait_for_text("a")
    status = open_tab(chat.url, "/status")
    page = status.page
    link = page.get_by_role("link", name="A trip to Gangneung")
    expect(link).to_be_visible()
    expect(page.locator(".counts")).to_have_text("1 running · 0 waiting")
    assert_accessible(page)
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    pace.let(1_000)
    chat.wait_for_reply()
    expect(link).to_be_visible()
    pause.click()
    expect(link).to_have_count(0)
    expect(page.locator(".counts")).to_have_text("0 running · 0 waiting")
    expect(page.get_by_role("img", name="Tokens written by all chats together")).to_be_visible()
    expect(page.locator(".rates")).to_contain_text("today")
    page.set_viewport_size({"width": 360, "height": 740})
    status.assert_no_sideways_scroll()
    assert_accessible(page)


def test_somebody_looks_up_a_word_under_a_reply(serve: Serve, open_tab: OpenTab) -> None:
    chat = open_tab(serve().url)
    chat.send_message("hello")
    chat.wait_for_reply()
    page = chat.page
    page.locator('.quiet a[href="/learn#ttft"]').click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Glossary")
    term = page.locator("#ttft")
    expect(term).to_be_in_viewport()
    expect(term).to_contain_text("The last reply here began after")
    term.get_by_role("link", name="Prefill").click()
    expect(page.locator("#prefill")).to_be_in_viewport()
    page.get_by_role("button", name="한국어").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("용어집")
    expect(page.locator("#prefill")).to_contain_text("이 컴퓨터는 1초에 토큰")
    assert_accessible(page)
    page.set_viewport_size({"width": 360, "height": 740})
    chat.assert_no_sideways_scroll()
