"""The whole page in Korean: in no state of it does a Korean reader meet English.

`ONDOL_SCREENSHOTS` names a folder for pictures of every state.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, expect

from tests.browser.chat_page import ChatPage
from tests.browser.pacing import Loading, Pace
from tests.inference.doubles import prepare_double
from tests.web.serving import Served

Serve = Callable[..., Served]

TEXTS = """() => {
  const elsewhere = (node) => node.closest('script, noscript, kbd, [lang="en"]');
  const texts = [document.title];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    if (!elsewhere(walker.currentNode.parentElement)) texts.push(walker.currentNode.data);
  }
  for (const template of document.querySelectorAll('template')) texts.push(template.content.textContent);
  for (const name of ['aria-label', 'title', 'placeholder', 'alt']) {
    for (const element of document.querySelectorAll(`[${name}]`)) {
      if (!elsewhere(element)) texts.push(element.getAttribute(name));
    }
  }
  return texts;
}"""
LATIN = re.compile(r"[A-Za-z]+")
NAMES = {"Chrome", "Double", "JSON", "JavaScript", "Linux", "Markdown", "Ondol", "QR", "WebSocket"}
UNITS = {"CPU", "KiB", "MB", "MiB", "k", "min", "p", "top"}
OF_THE_DOUBLE = {"double", "http", "none", "scripted", "house", "local"}
LONG = "바닷가에서 하룻밤 묵고 오는 여행을 생각하고 있어요. " * 3
NO_CONNECTION = "WebSocket connection to|ERR_CONNECTION_REFUSED"
UNAUTHORIZED = "status of 401"


class KoreanPage(ChatPage):
    """The chat page of a person whose browser asks for Korean."""

    @property
    def composer(self) -> Locator:
        return self.page.get_by_role("textbox", name="메시지")

    @property
    def send_button(self) -> Locator:
        return self.page.get_by_role("button", name="보내기")

    def assert_korean(self, picture: str) -> None:
        """Whatever the page says now, to eyes or ears, is Korean; and nothing is wider than the window."""
        width = self.page.viewport_size["width"] if self.page.viewport_size else 0
        if folder := os.environ.get("ONDOL_SCREENSHOTS"):
            name = f"ko-{width}-{picture}.png"
            self.page.screenshot(path=Path(folder) / name, animations="disabled")
        words = {word for text in self.page.evaluate(TEXTS) for word in LATIN.findall(text)}
        assert words - NAMES - UNITS - OF_THE_DOUBLE == set(), picture
        self.assert_no_sideways_scroll()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser whose first language is Korean."""
    context = browser.new_context(locale="ko-KR", color_scheme="light")
    yield context
    context.close()


@pytest.fixture(params=[1280, 360])
def open_korean(
    request: pytest.FixtureRequest, context: BrowserContext
) -> Iterator[Callable[..., KoreanPage]]:
    """Opens tabs, on a wide screen and on a phone's; at the end none of them may have complained."""
    tabs: list[KoreanPage] = []

    def open_korean(url: str, path: str = "/") -> KoreanPage:
        tab = KoreanPage(context.new_page(), url)
        tabs.append(tab)
        tab.page.set_viewport_size({"width": request.param, "height": 800})
        return tab.open(path)

    yield open_korean
    assert [complaint for tab in tabs for complaint in tab.complaints()] == []


OpenKorean = Callable[..., KoreanPage]


def open_list(chat: KoreanPage) -> None:
    """Show the sidebar where it is a sheet."""
    opener = chat.page.get_by_role("button", name="대화 목록 보기")
    if opener.is_visible():
        opener.click()


def test_a_conversation_from_the_empty_page_to_its_end(serve: Serve, open_korean: OpenKorean) -> None:
    pace = Pace(1)  # for the system prompt
    served = serve(lambda prompt: LONG, pace=pace, window=1_024, system_prompt="짧게 답해.")
    chat = open_korean(served.url).wait_until_ready()
    chat.assert_korean("empty")
    chat.page.get_by_text("시스템 프롬프트", exact=True).click()
    chat.page.locator("#model > summary").click()
    chat.assert_korean("model")
    chat.page.keyboard.press("Escape")
    chat.page.get_by_role("button", name="빵집").click()
    expect(chat.page.locator("#context-words")).to_contain_text("데워짐")
    chat.page.locator(".legend > summary").click()
    chat.assert_korean("legend")
    chat.page.keyboard.press("Escape")
    chat.send_button.click()
    expect(chat.page.locator(".waiting-words")).to_contain_text("읽음")
    chat.assert_korean("reading")
    pace.let(80)
    chat.wait_for_text("바닷가에서")
    chat.assert_korean("writing")
    chat.stop_button.click()
    stopped = chat.wait_for_reply(meanwhile=pace.let)
    assert "멈춤" in stopped.line
    chat.assert_korean("stopped")
    pace.let_all()
    chat.page.get_by_role("button", name="다른 답변 쓰기").click()
    chat.wait_for_reply()
    expect(chat.page.get_by_role("img", name="2개 판 중 2번째")).to_be_visible()
    chat.page.get_by_role("button", name="이 메시지 고치기").click()
    chat.assert_korean("editing")
    chat.page.get_by_role("button", name="취소").click()
    chat.page.get_by_role("button", name="이 답변과 그 뒤를 삭제").click()
    expect(chat.page.get_by_role("button", name="되돌리기")).to_be_visible()
    chat.assert_korean("deleted")
    chat.page.get_by_role("button", name="되돌리기").click()
    expect(chat.page.get_by_role("img", name="2개 판 중 2번째")).to_be_visible()
    chat.send_message("조금 더 자세히 알려 줘.")
    finished = chat.wait_for_reply()
    assert re.search(r"토큰 [\d,]+개", finished.line)
    assert re.search(r"[\d,]+개 중 [\d,]+개 재사용", finished.line)
    chat.assert_korean("finished")
    for _ in range(4):
        chat.send_message("그리고 또?")
        chat.wait_for_reply()
    expect(chat.page.get_by_text("모델은 여기부터 읽어요")).to_be_attached()
    chat.reload()
    chat.page.get_by_role("button", name="이 답변 복사").last.click()
    chat.assert_korean("cut")


def test_the_list_and_what_can_go_wrong(serve: Serve, open_korean: OpenKorean) -> None:
    served = serve(window=256, system_prompt="짧게 답해.")
    chat = open_korean(served.url).wait_until_ready()
    chat.expect_complaint(NO_CONNECTION)
    chat.expect_complaint("status of 404")
    chat.expect_complaint("ERR_CONNECTION_REFUSED")
    chat.send_message("안녕하세요")
    chat.wait_for_reply()
    chat.write("가" * 200)
    expect(chat.page.locator("#context-note")).to_contain_text("줄여 주세요")
    chat.assert_korean("too-long-to-fit")
    chat.write("가" * 400_000)
    expect(chat.page.locator("#hint")).to_contain_text("바이트")
    chat.assert_korean("too-long-to-send")
    chat.write("")
    open_list(chat)
    row = chat.page.locator("#conversations .row")
    row.hover()
    row.get_by_role("button", name="더 보기").click()
    expect(chat.page.get_by_role("menuitem", name="삭제")).to_be_visible()
    chat.assert_korean("row-menu")
    chat.page.get_by_role("menuitem", name="이름 바꾸기").click()
    chat.page.get_by_role("textbox", name="새 이름").fill("인사")
    served.close()
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator(".row-failed")).to_contain_text("바뀐 것은 없어요")
    expect(chat.page.locator("#connection")).to_contain_text("다시 연결하는 중")
    chat.assert_korean("no-connection")
    serve(port=served.port, window=256, system_prompt="짧게 답해.")
    chat.page.goto(served.url + "/c/nobody")
    expect(chat.page.get_by_role("heading")).to_have_text("찾을 수 없어요")
    expect(chat.page.get_by_text("대화가 없어요")).to_be_visible()


def test_settings_presets_pins_and_shortcuts(serve: Serve, open_korean: OpenKorean) -> None:
    chat = open_korean(serve(window=2_048, system_prompt="짧게 답해.").url).wait_until_ready()
    chat.send_message("안녕하세요")
    chat.wait_for_reply()
    chat.page.get_by_role("button", name="이 메시지 고정").click()
    expect(chat.page.locator(".pin-mark").first).to_be_visible()
    chat.page.get_by_role("button", name="이 대화의 설정").click()
    sheet = chat.page.get_by_role("dialog", name="설정")
    sheet.get_by_label("온도").fill("9")
    sheet.get_by_label("온도").press("Tab")
    expect(sheet.get_by_role("alert").filter(has_text="쓸 수 있는 값: 0부터 5까지")).to_be_visible()
    sheet.get_by_role("textbox", name="시스템 프롬프트").fill("요리사처럼 답해.")
    sheet.get_by_text("프리셋으로 보관").click()
    sheet.get_by_role("button", name="보관", exact=True).click()
    expect(sheet.get_by_role("alert").filter(has_text="이름이 필요해요")).to_be_visible()
    chat.assert_korean("settings")
    sheet.get_by_label("프리셋 이름").fill("요리사")
    sheet.get_by_role("button", name="보관", exact=True).click()
    expect(sheet.get_by_role("status")).to_contain_text("보관했어요")
    sheet.get_by_role("button", name="모델의 값으로 되돌리기").click()
    chat.assert_korean("settings-reset")
    chat.page.keyboard.press("Escape")
    chat.press("Control+/")
    expect(chat.page.get_by_role("dialog", name="단축키")).to_be_visible()
    chat.assert_korean("shortcuts")


def test_a_model_that_comes_slowly_or_not_at_all(
    serve: Serve, open_korean: OpenKorean, tmp_path: Path
) -> None:
    loading = Loading(lambda: prepare_double(tmp_path / "model"))
    loading.message = "Downloading Double"
    loading.failures = ["Fetching the model was stopped; start again to fetch it."]
    chat = open_korean(serve(prepare=loading, system_prompt="짧게 답해.").url)
    progress = chat.page.locator("#progress")
    expect(progress).to_contain_text("모델 가져오기를 멈췄어요")
    chat.assert_korean("failed")
    chat.page.get_by_role("button", name="다시 시도").click()
    expect(progress).to_contain_text("93 MB 중 31 MB")
    chat.write("안녕하세요")
    chat.assert_korean("downloading")
    loading.fetched.set()
    chat.wait_until_ready()


def test_connecting_a_device(serve: Serve, open_korean: OpenKorean, browser: Browser) -> None:
    served = serve(lan=True, system_prompt="짧게 답해.")
    owner = open_korean(served.url, "/health")
    owner.expect_complaint(UNAUTHORIZED)
    owner.page.goto(served.owner_url)
    expect(owner.composer).to_be_focused()
    owner.wait_until_ready()
    open_list(owner)
    owner.page.get_by_role("button", name="기기 연결").click()
    expect(owner.page.locator(".invitation-words")).to_contain_text("남은 시간")
    owner.assert_korean("invitation")
    with browser.new_context(locale="ko-KR", viewport=owner.page.viewport_size) as apart:
        phone = KoreanPage(apart.new_page(), served.lan_url)
        phone.page.goto(served.lan_url)
        field = phone.page.get_by_role("textbox", name="연결 코드")
        field.fill("1234 567")
        field.press("Enter")
        expect(phone.page.get_by_role("status")).to_contain_text("지금은 7자리예요")
        field.fill("0000 0000")
        field.press("Enter")
        expect(phone.page.get_by_role("status")).to_contain_text("이 서버의 코드가 아니에요")
        phone.assert_korean("pairing")
        field.fill(re.sub(r"\D", "", owner.page.locator(".invitation-code").inner_text()))
        field.press("Enter")
        expect(phone.composer).to_be_visible()
    expect(owner.page.get_by_role("dialog")).to_contain_text("연결된 기기: Linux의 Chrome")
    owner.assert_korean("connected")


def test_the_switch_changes_the_language_and_keeps_what_is_being_written(
    serve: Serve, open_korean: OpenKorean
) -> None:
    pace = Pace(200)
    chat = open_korean(serve(lambda prompt: LONG, pace=pace, window=2_048).url).wait_until_ready()
    chat.send_message("시작")
    seen = chat.wait_for_text("바닷가에서").text
    chat.write("쓰다 만 글")
    open_list(chat)
    chat.page.get_by_role("button", name="English").click()
    expect(chat.page.locator("html")).to_have_attribute("lang", "en")
    chat.wait_until_connected()
    expect(chat.page.get_by_role("textbox", name="Message")).to_have_value("쓰다 만 글")
    assert chat.wait_for_text(seen).is_running
    pace.let_all()
    assert "reused" in chat.wait_for_reply().line
    open_english = chat.page.get_by_role("button", name="Show conversations")
    if open_english.is_visible():
        open_english.click()
    chat.page.get_by_role("button", name="한국어").click()
    expect(chat.page.locator("html")).to_have_attribute("lang", "ko")
    assert "재사용" in chat.reply().line
