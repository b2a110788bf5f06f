"""Korean beside English: nothing is missing, and everybody reads their own language."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog, Message

from inference.errors import EngineBusy, PromptTooLong
from inference.types import Prefill, Queued
from tests.web import texts
from tests.web.serving import Served
from web.language import Language
from web.languages import CATALOGUES, asked_for, load_languages, read_catalogue
from web.wording import day_label, label_in_words, thought_words, waiting_line

Serve = Callable[..., Served]

FILES = sorted(CATALOGUES.glob("*/LC_MESSAGES/ondol.po"))
KOREAN = {"Accept-Language": "ko-KR,ko;q=0.9,en-US;q=0.8"}
WORDS = re.compile(r"[A-Za-z]{2,}")
NAMES = {"Ondol"}
MARKUP = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<!doctype html>", re.DOTALL)
OPAQUE_CALL = re.compile(r"\b(?:t|plural|msgid)\(\s*(?:`|'|\"[^\"]*\"\s*\+).*")
COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
STRING = re.compile(r'["`]([A-Z][a-z][^"`\n]*)["`]')
KEYS = {"ArrowDown", "ArrowUp", "Ctrl + /", "Ctrl + K", "Enter", "Escape", "Home", "Tab"}
SPOKEN = re.compile(r'\b(?:aria-label|title|placeholder|alt)="([^"]*)"')


@pytest.fixture(scope="module")
def korean() -> Language:
    return next(language for language in load_languages() if language.code == "ko")


@pytest.fixture(scope="module")
def in_sources() -> Catalog:
    return texts.all_texts()


def ids(catalogue: Catalog) -> set[Any]:
    return {message.id for message in catalogue if message.id}


def values_differ(message: Message) -> bool:
    last = message.id if isinstance(message.id, str) else message.id[-1]
    return any(texts.placeholders(form) != texts.placeholders(last) for form in texts.forms(message))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.parent.name)
def test_a_catalogue_has_every_text_of_the_sources_and_no_other(file: Path, in_sources: Catalog) -> None:
    catalogue = read_catalogue(file)
    assert ids(in_sources) - ids(catalogue) == set()
    assert ids(catalogue) - ids(in_sources) == set()
    assert [message.id for message in texts.untranslated(catalogue)] == []
    assert [message.id for message in catalogue if message.id and values_differ(message)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.parent.name)
def test_scripts_get_every_text_that_they_show(file: Path, in_sources: Catalog) -> None:
    wanted = {
        message.id if isinstance(message.id, str) else message.id[0]
        for message in in_sources
        if any(name.startswith("static/") for name, _ in message.locations)
    }
    language = Language.read(file.parent.parent.name, read_catalogue(file))
    assert set(language.for_scripts) == wanted


def test_what_is_shown_besides_sentences_is_still_in_the_sources() -> None:
    gone = {
        (name, text)
        for name, listed in texts.ALSO.items()
        for text in listed
        if text not in set(texts.strings(texts.ROOT / name))
    }
    assert gone == set()


def test_templates_hold_no_words_outside_of_calls() -> None:
    found = {}
    for file in texts.ROOT.glob("templates/*.html"):
        bare = MARKUP.sub("", file.read_text(encoding="utf-8"))
        shown = " ".join([re.sub(r"<[^>]*>", " ", bare), *SPOKEN.findall(bare)])
        found[file.name] = set(WORDS.findall(shown)) - NAMES
    assert {name: words for name, words in found.items() if words} == {}


def test_scripts_hold_no_words_outside_of_calls() -> None:
    for file in texts.ROOT.glob("static/js/*.js"):
        code = COMMENT.sub("", file.read_text(encoding="utf-8"))
        assert OPAQUE_CALL.findall(code) == [], file.name
        assert set(STRING.findall(texts.SCRIPT_CALL.sub("", code))) - KEYS == set(), file.name


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        ("ko-KR,ko;q=0.9,en-US;q=0.8", ["ko", "ko", "en"]),
        ("fr, en;q=0.5, ko;q=0.7", ["fr", "ko", "en"]),
        ("ko;q=0, en", ["en"]),
        ("*", ["*"]),
        ("", [""]),
        ("ko;q=nonsense;;,en", ["en"]),
    ],
)
def test_the_most_wanted_language_comes_first(header: str, languages: list[str]) -> None:
    assert asked_for(header) == languages


def test_the_page_is_in_the_language_that_was_chosen_or_else_is_asked_for(serve: Serve) -> None:
    served = serve()
    korean, english = served.get("/", **KOREAN).text, served.get("/", **{"Accept-Language": "fr, en"}).text
    assert '<html lang="ko">' in korean
    assert "보내기" in korean
    assert '<html lang="en">' in english
    assert "Send" in english
    chosen = served.get("/", **KOREAN, Cookie="ondol_language=en").text
    assert '<html lang="en">' in chosen
    unknown = served.get("/", **KOREAN, Cookie="ondol_language=xx").text
    assert '<html lang="ko">' in unknown


def test_two_people_watch_one_reply_each_in_their_own_language(serve: Serve) -> None:
    pace = threading.Semaphore(2)
    served = serve(pace=pace)
    english, korean = served.ready_client(), served.ready_client(headers=KOREAN)
    assert "at once" in english.frames[-1]["detail"]
    assert "한 번에" in korean.frames[-1]["detail"]
    accepted = english.say("hello")
    korean.send("watch", conversation_id=accepted["conversation_id"])
    assert "나</h2>" in korean.wait_for("snapshot")["html"]
    pace.release(100)
    assert "until the first token" in english.wait_for("finished")["html"]
    assert "첫 토큰까지" in korean.wait_for("finished")["html"]
    english.wait_for_list(showing="Today")
    korean.wait_for_list(showing="오늘")


def test_errors_and_refusals_are_said_in_the_person_s_language(serve: Serve) -> None:
    served = serve(window=256)
    client = served.ready_client(headers=KOREAN)
    ref = client.send("send", text="word " * 300)
    error = client.wait_for("error", ref=ref)
    assert re.search(r"토큰 [\d,]+개가 필요한데", error["message"])
    assert f"{error['limit']:,}개까지" in error["message"]
    ref = client.send("watch", conversation_id="nobody")
    assert client.wait_for("error", ref=ref)["message"] == "nobody 대화가 없어요."
    own = client.say("hello")["conversation_id"]
    refused = served.post(f"/api/conversations/{own}/rename", {"title": ""}, **KOREAN)
    assert refused.json()["error"] == "제목은 1자에서 200자까지 쓸 수 있어요."
    assert "찾을 수 없어요" in served.get("/nowhere", **KOREAN).text


@pytest.mark.parametrize(
    ("english", "said"),
    [
        (
            str(PromptTooLong(9_000, 8_192)),
            "이 메시지는 시스템 프롬프트와 답변 자리까지 합쳐 토큰 9,000개가 필요한데, 컨텍스트 창에는 "
            "8,192개까지 들어가요. 토큰 808개를 줄여 주세요.",
        ),
        (str(EngineBusy(32, 32)), "대기열의 자리 32개 중 32개가 차 있어요. 잠시 뒤에 다시 시도해 주세요."),
        (
            "The model is not here yet: Loading Qwen",
            "모델이 아직 준비되지 않았어요: Qwen 모델을 불러오는 중",
        ),
        (
            "Q4_1 in blocks of 32, as in the file: 106 of 135 million weights; the others in Q8_0",
            "파일 그대로 32개씩 묶은 Q4_1: 가중치 135백만 개 중 106백만 개, 나머지는 Q8_0",
        ),
        (
            "NF4 in blocks of 64: 100 of 135 million weights; not embeddings and head, k_proj",
            "64개씩 묶은 NF4: 가중치 135백만 개 중 100백만 개, 제외: 임베딩과 출력층, k_proj",
        ),
        ("it was evicted to make room for other chats", "다른 대화에 자리를 내주려고 캐시에서 뺐어요"),
        ("Something that nobody has foreseen.", "Something that nobody has foreseen."),
        ("", ""),
    ],
)
def test_sentences_of_other_packages_are_known_by_their_form(
    korean: Language, english: str, said: str
) -> None:
    assert korean.sentence(english) == said


def test_numbers_days_and_times_follow_the_language(korean: Language) -> None:
    english = load_languages().english
    assert [english.ordinal(n) for n in (1, 2, 3, 4, 11, 22)] == ["1st", "2nd", "3rd", "4th", "11th", "22nd"]
    assert korean.ordinal(2) == "2번째"
    assert english.short_number(134_515_008) == "135 million"
    assert korean.short_number(134_515_008) == "1.35억"
    assert english.number(12_345.678, 1) == "12,345.7"
    today = date(2026, 11, 29)
    labels = [label_in_words(korean, day_label(today - timedelta(days=age), today)) for age in (0, 1, 7, 8)]
    assert labels == ["오늘", "어제", "지난 7일", "2026년 11월"]
    assert waiting_line(english, Queued(2, eta_s=20.4)) == "2nd in line, about 20 s"
    assert waiting_line(korean, Queued(2, eta_s=200)) == "2번째 차례, 약 3분"
    assert waiting_line(english, Prefill(1, 1, 0)) == "reading 1 of 1 token, 0 warm"
    assert (
        waiting_line(korean, Prefill(1_840, 6_000, 1_500))
        == "토큰 6,000개 중 1,840개 읽음, 데워진 토큰 1,500개"
    )
    assert thought_words(english, 119.7) == "Thought for 2 min 0 s"
