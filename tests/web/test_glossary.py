"""The glossary: whole in every language, linked to where its words are used, and honest about numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.web.client import WAIT_S
from tests.web.serving import Served
from web.glossary import GROUPS, TERMS
from web.languages import load_languages
from web.presenter import TEMPLATES

Serve = Callable[..., Served]
FILES = sorted((TEMPLATES / "learn").glob("*.html"))
PARAGRAPH = re.compile(r"\{% macro (\w+)\(\) %\}<p>(.+?)</p>\{% endmacro %\}", re.DOTALL)
LINK = re.compile(r'"(?:/learn)?#([\w-]+)"')


def here(served: Served, slug: str, language: str = "en") -> str:
    """What this machine says of a term."""
    page = served.get("/learn", **{"Accept-Language": language}).text
    (article,) = re.findall(rf'<article class="term-card" id="{slug}".*?</article>', page, re.DOTALL)
    found = re.search(r'<p class="here">(.*?)</p>', article)
    return found[1] if found else ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_term_has_its_paragraph_in_every_language(file: Path) -> None:
    paragraphs = PARAGRAPH.findall(file.read_text("utf-8"))
    assert sorted(name.replace("_", "-") for name, _ in paragraphs) == sorted(TERMS)
    assert [name for name, text in paragraphs if not 60 < len(text) < 700] == []
    if file.stem == "ko":
        assert [
            name for name, text in paragraphs if not re.search("[가-힣]{2}.*요[.”’]?(?: |<|$)", text)
        ] == []


def test_there_is_a_glossary_for_each_language_of_the_pages() -> None:
    assert {file.stem for file in FILES} == {language.code for language in load_languages()}


def test_every_link_leads_to_a_term() -> None:
    assert sum(len(terms) for _, terms in GROUPS) == len(TERMS)
    assert {slug for term in TERMS.values() for slug in term.see} <= set(TERMS)
    linked = set()
    for file in [*TEMPLATES.glob("*.html"), *FILES]:
        text = file.read_text("utf-8")
        linked |= {slug for slug in LINK.findall(text) if "learn" in str(file) or f"/learn#{slug}" in text}
        linked |= set(re.findall(r'term\("([\w-]+)"', text))
    assert linked <= set(TERMS)
    assert {"token", "ttft", "throughput", "prefix-cache", "context-window", "kv-cache"} <= linked


def test_the_numbers_are_this_machine_s_or_said_to_be_missing(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    for slug in ("prefill", "decode", "ttft", "throughput", "prefix-cache"):
        assert here(served, slug).startswith("Not measured yet")
    assert here(served, "kv-cache").startswith(
        "Double: 0.1 KiB a token, so 0.1 MiB for a chat of 1,000 tokens."
    )
    assert here(served, "context-window", "ko") == "여기서 대화 하나에는 토큰 512개까지 들어가요."
    client.say_and_wait("hello")
    deadline = time.monotonic() + WAIT_S
    while not here(served, "ttft").startswith("The last reply here began after"):
        assert time.monotonic() < deadline
    assert re.fullmatch(r"Here, prompts were read at [\d,.]+ tokens a second\.", here(served, "prefill"))
    assert re.fullmatch(r"Here, a chat was written at [\d,.]+ tokens a second\.", here(served, "decode"))
    assert "1초에 토큰" in here(served, "decode", "ko")
