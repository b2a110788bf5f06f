"""Pages and the changes that need no socket."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Callable

import pytest

from tests.web.serving import Served
from web.bench_pages import first_load
from web.language import Language
from web.languages import load_languages

Serve = Callable[..., Served]


def test_the_page_answers_while_the_model_is_loading(serve: Serve) -> None:
    served = serve()
    response = served.get("/")
    assert response.status_code == 200
    assert "<textarea" in response.text


@pytest.mark.parametrize("language", [language.code for language in load_languages()])
def test_the_first_load_has_at_most_150_000_bytes(serve: Serve, language: str) -> None:
    assert first_load(serve().url, language) <= 150_000


@pytest.mark.parametrize("language", [*load_languages()], ids=lambda language: language.code)
def test_scripts_that_come_later_get_their_texts(serve: Serve, language: Language) -> None:
    served = serve()
    page = served.get("/", **{"accept-language": language.code}).text
    inside = json.loads(html.unescape(page.split('id="texts"')[1].split(">", 1)[1].split("</script>")[0]))
    others = re.search(r'data-others="([^"]+)"', page)
    fetched = served.get(others[1]).json() if others else {}
    assert inside | fetched == language.for_scripts
    assert language.code == "en" or len(inside) < len(fetched)


def test_a_conversation_is_named_after_its_first_message(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    client.say_and_wait(
        "\n  Plan a trip to Gangneung for two days with children and a dog in the car, please"
    )
    assert "Plan a trip to Gangneung for two days with children and a…" in served.get("/").text


def test_rename_and_delete(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    accepted, _ = client.say_and_wait("hello")
    conversation = f"/api/conversations/{accepted['conversation_id']}"
    assert served.post(f"{conversation}/rename", {"title": "새 이름"}).status_code == 204
    client.wait_for_list(showing="새 이름")
    assert "새 이름" in served.get("/").text
    assert served.post(f"{conversation}/delete", {}).status_code == 204
    client.wait_for_list(hiding="새 이름")
    assert served.get(f"/c/{accepted['conversation_id']}").status_code == 404
    assert served.post(f"{conversation}/rename", {"title": "x"}).status_code == 404
    assert served.post(f"{conversation}/delete", {}).status_code == 204


def test_the_list_marks_a_conversation_while_its_reply_is_written(serve: Serve) -> None:
    pace = threading.Semaphore(12)
    served = serve(lambda prompt: "abcdefghij" * 4, pace=pace)
    client = served.ready_client()
    client.say("go")
    client.wait_for_list(showing="a reply is being written")
    pace.release(1_000)
    client.wait_for("finished")
    client.wait_for_list(hiding="a reply is being written")


def test_deleting_a_conversation_ends_its_reply(serve: Serve) -> None:
    served = serve(lambda prompt: "abcdefghij" * 40)
    client = served.ready_client()
    accepted = client.say("go")
    assert served.post(f"/api/conversations/{accepted['conversation_id']}/delete", {}).status_code == 204
    client.wait_for("conversations")
    assert served.get(f"/c/{accepted['conversation_id']}").status_code == 404


def test_a_bad_title_changes_nothing(serve: Serve) -> None:
    served = serve()
    accepted, _ = served.ready_client().say_and_wait("hello")
    path = f"/api/conversations/{accepted['conversation_id']}/rename"
    for body in ({"title": ""}, {"title": "x" * 201}, {"title": 7}, {}, [], {"title": "a", "b": 1}):
        response = served.post(path, body)
        assert response.status_code == 400
        assert "1 to 200 characters" in response.json()["error"]
    assert served.post(path, {"title": "x" * 9_000}).status_code == 413


def test_what_does_not_exist_is_said_on_a_page(serve: Serve) -> None:
    served = serve()
    for path in ("/c/nobody", "/nowhere", "/static/../pyproject.toml", "/static/nothing.js"):
        response = served.get(path)
        assert response.status_code == 404
        assert "Traceback" not in response.text


def test_static_files_may_be_kept_for_ever_and_pages_not_at_all(serve: Serve) -> None:
    served = serve()
    page = served.get("/")
    assert page.headers["cache-control"] == "no-store"
    asset = page.text.partition('src="')[2].partition('"')[0]
    assert asset.startswith("/static/")
    assert "immutable" in served.get(asset).headers["cache-control"]


def test_the_page_tells_how_many_replies_the_memory_holds_at_once(serve: Serve) -> None:
    served = serve(engine={"max_sequences": 3})
    detail = served.ready_client().frames[-1]["detail"]
    assert "Up to 3 replies at once" in detail
    assert "a window of 512 tokens" in detail
    assert detail in html.unescape(served.get("/").text)
