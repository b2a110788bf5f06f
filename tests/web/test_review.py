"""The record of a reply, writing it again, its tokens, and comparing versions: over HTTP and the socket."""

from __future__ import annotations

import hashlib
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from storage.conversations import Conversations
from storage.scores import Scores
from storage.tables import Message
from tests.inference.doubles import CHATML
from tests.inference.test_engine_sampling import ScatteredBackend
from tests.web.client import Client
from tests.web.serving import Served
from web.prompts import prompt_hash

Serve = Callable[..., Served]
Frame = dict[str, Any]
WAIT_S = 20


def stored(served: Served, message_id: str) -> Any:
    return Conversations(served.database).message(message_id)


def place(accepted: Frame) -> Frame:
    return {"conversation_id": accepted["conversation_id"], "message_id": accepted["reply_id"]}


def after(accepted: Frame) -> Frame:
    return {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}


def again(client: Client, accepted: Frame, **how: Any) -> Frame:
    """The `accepted` of another version, once that is written."""
    ref = client.send("regenerate", **place(accepted), **how)
    another = client.wait_for("accepted", ref=ref)
    client.wait_for("finished", message_id=another["reply_id"])
    return another


def record(served: Served, reply_id: str) -> str:
    response = served.get(f"/api/messages/{reply_id}/record")
    assert response.status_code == 200
    return str(response.text)


def choose(served: Served, accepted: Frame, **chosen: Any) -> None:
    body = {"system_prompt": "Be brief.", "params": {}, "thinking": None, **chosen}
    response = served.post(f"/api/conversations/{accepted['conversation_id']}/settings", body)
    assert response.status_code == 204


def test_the_same_seed_writes_the_same_reply_whatever_was_changed_since(serve: Serve) -> None:
    served = serve(window=1_024, kind=ScatteredBackend)
    client = served.ready_client()
    opening = {
        "system_prompt": "Be brief.",
        "params": {"temperature": 1.2, "max_tokens": 60},
        "thinking": None,
    }
    first, _ = client.say_and_wait("one", opening=opening)
    second, _ = client.say_and_wait("two", **after(first))
    original = stored(served, second["reply_id"])
    assert original.params["seed"] < 2**53
    choose(served, second, system_prompt="Speak like a pirate.", params={"temperature": 0.1})
    another = stored(served, again(client, second)["reply_id"])
    assert another.token_ids != original.token_ids
    repeated = stored(served, again(client, second, repeat=True)["reply_id"])
    assert repeated.token_ids == original.token_ids
    assert repeated.params == original.params
    assert repeated.usage["cached_tokens"] == original.usage["cached_tokens"]  # so that all is rounded alike
    assert repeated.context["prompt_hash"] == original.context["prompt_hash"]
    html = record(served, repeated.id)
    assert f"token for token, all {len(original.token_ids)} of them" in html


def test_a_reply_is_written_again_after_what_was_read_then_even_if_more_could_be_read_now(
    serve: Serve,
) -> None:
    served = serve(lambda prompt: "yes " * 10)
    client = served.ready_client()
    accepted, _ = client.say_and_wait("0 a question of some length, to fill the window soon " * 2)
    for number in range(1, 5):
        text = f"{number} a question of some length, to fill the window soon"
        accepted, _ = client.say_and_wait(text, **after(accepted))
    original = stored(served, accepted["reply_id"])
    assert original.context["left_out"]
    repeated = again(client, accepted, repeat=True)
    context = stored(served, repeated["reply_id"]).context
    assert context["left_out"] == original.context["left_out"]
    assert context["prompt_hash"] == original.context["prompt_hash"]
    assert "messages were not read" in record(served, repeated["reply_id"])


def test_other_params_make_a_version_and_leave_the_chat_as_it_was(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    varied = stored(served, again(client, first, params={"temperature": 0.5, "seed": 7})["reply_id"])
    assert (varied.params["temperature"], varied.params["seed"]) == (0.5, 7)
    assert Conversations(served.database).get(first["conversation_id"]).choices.params == {}
    ref = client.send("regenerate", **place(first), params={"temperature": 99})
    assert client.wait_for("error", ref=ref)["code"] == "bad_params"
    html = served.get(f"/compare/{first['reply_id']}").text
    assert "Version 1" in html
    assert "0.5" in html
    assert "The same, token for token" in html


OBSTACLES: list[tuple[Frame, str]] = [
    ({"model": "Other"}, "Other wrote this reply, and Double is loaded now."),
    ({"template_hash": "x"}, "The chat template is another one now"),
    ({"prompt_hash": "x"}, "cannot be put together again exactly"),
    ({"context": None}, "was not kept"),
]


def test_what_cannot_be_written_again_or_scored_says_why(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    whole = stored(served, first["reply_id"])
    for change, reason in OBSTACLES:
        with served.database.write() as session:
            message = session.get_one(Message, whole.id)
            message.model = change.get("model", whole.model)
            message.context = change.get("context", {**whole.context, **change})
        assert reason in record(served, whole.id)
        ref = client.send("regenerate", **place(first), repeat=True)
        assert reason in client.wait_for("error", ref=ref)["message"]
        refused = served.post(f"/api/replies/{whole.id}/scores", {})
        assert (refused.status_code, reason in refused.json()["error"]) == (409, True)


def test_the_record_tells_what_was_measured_and_what_the_model_read(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    reply = stored(served, first["reply_id"])
    start, end = "<|im_start|>", "<|im_end|>\n"
    prompt = f"{start}system\nBe brief.{end}{start}user\nhello{end}{start}assistant\n"
    assert served.get(f"/api/messages/{reply.id}/prompt").text == prompt
    assert reply.usage["prompt_tokens"] == len(prompt) - 3 * 11 - 2 * 9  # specials are one token each
    assert reply.context["template_sha256"] == hashlib.sha256(CHATML.encode()).hexdigest()
    assert reply.usage["kv_tokens"] == reply.usage["prompt_tokens"] + len("hello")
    assert reply.context["tokenize_s"] > 0
    assert {"renders", "render_s", "first_shown_s"} <= set(reply.timings)
    html = record(served, reply.id)
    for said in (reply.context["template_sha256"], f">{reply.params['seed']}<", "100 bytes a token"):
        assert said in html
    assert served.get(f"/api/messages/{first['user_id']}/record").status_code == 404
    assert served.get("/api/messages/absent/record").status_code == 404


def scored(served: Served, reply_id: str) -> Frame:
    """Ask for the probabilities, and wait until they are kept."""
    state = served.post(f"/api/replies/{reply_id}/scores", {}).json()
    deadline = time.monotonic() + WAIT_S
    while state["state"] == "running" and time.monotonic() < deadline:
        state = served.get(f"/api/replies/{reply_id}/scores").json()
    assert state["state"] == "kept", state
    body: Frame = served.get(f"/api/replies/{reply_id}/tokens").json()
    return body


def test_probabilities_are_computed_once_and_kept(serve: Serve) -> None:
    served = serve(lambda prompt: "a 가")
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    plain = served.get(f"/api/replies/{first['reply_id']}/tokens").json()
    assert [token["text"] for token in plain["tokens"]] == ["a", " ", "가", "", ""]
    assert [token["bytes"] for token in plain["tokens"]] == ["61", "20", "ea", "b0", "80"]
    assert "p" not in plain["tokens"][0]
    tokens = scored(served, first["reply_id"])["tokens"]
    assert [(token["p"], token["rank"]) for token in tokens] == [(1.0, 1)] * 5
    assert tokens[0]["top"][0] == [tokens[0]["id"], "a", 1.0]
    computed = len(served.backends[0].computed)
    scored(served, first["reply_id"])
    assert len(served.backends[0].computed) == computed
    kept = Scores(served.database).get(first["reply_id"])
    assert kept is not None
    assert (kept.model, kept.tokens, kept.computed_by["compute_dtype"]) == ("Double", 5, "none")
    window = served.get(f"/api/replies/{first['reply_id']}/tokens?from=3&count=1").json()
    assert (window["total"], [token["bytes"] for token in window["tokens"]]) == (5, ["b0"])
    assert served.get(f"/api/replies/{first['reply_id']}/tokens?from=-1").status_code == 400


def test_a_scoring_can_be_stopped_and_leaves_nothing(serve: Serve) -> None:
    pace = threading.Semaphore(500)
    served = serve(lambda prompt: "abc" * 20, pace=pace)
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    while pace.acquire(blocking=False):
        pass
    address = f"/api/replies/{first['reply_id']}/scores"
    assert served.post(address, {}).json()["state"] == "running"
    assert served.post(address + "/stop", {}).status_code == 204
    pace.release(1_000)
    deadline = time.monotonic() + WAIT_S
    while served.get(address).json()["state"] == "running":
        assert time.monotonic() < deadline
    assert served.get(address).json()["state"] == "none"
    assert Scores(served.database).get(first["reply_id"]) is None


def test_a_scoring_that_fails_says_why_and_can_be_asked_for_again(serve: Serve) -> None:
    served = serve()
    first, _ = served.ready_client().say_and_wait("hello")
    address = f"/api/replies/{first['reply_id']}/scores"
    served.backends[0].fail_with = RuntimeError("broken")
    state = served.post(address, {}).json()
    deadline = time.monotonic() + WAIT_S
    while state["state"] == "running" and time.monotonic() < deadline:
        state = served.get(address).json()
    assert (state["state"], "broken" in state["error"]) == ("failed", True)
    assert len(scored(served, first["reply_id"])["tokens"]) == len("hello")


def test_versions_are_compared_with_what_followed_them_and_nothing_in_them_is_markup(serve: Serve) -> None:
    served = serve(lambda prompt: prompt.rpartition("user\n")[2].strip() + " <b>&amp;</b>")
    client = served.ready_client()
    first, _ = client.say_and_wait("one red <i>house</i>")
    client.say_and_wait("more", **after(first))
    edited = client.send(
        "edit",
        conversation_id=first["conversation_id"],
        message_id=first["user_id"],
        text="one blue <i>house</i>",
    )
    other = client.wait_for("accepted", ref=edited)
    client.wait_for("finished", message_id=other["reply_id"])
    html = served.get(f"/compare/{other['user_id']}?with={first['user_id']}").text
    assert html.count("<del>red</del>") == 2
    assert html.count("<ins>blue</ins>") == 2
    assert "&lt;i&gt;house&lt;/i&gt;" in html
    assert "<i>" not in html
    assert "<del>more</del>" in html
    assert served.get(f"/compare/{first['reply_id']}").status_code == 404
    assert served.get(f"/compare/{first['user_id']}?with=absent").status_code == 404


def test_a_prompt_hash_is_of_ids_as_int32() -> None:
    assert prompt_hash((1, 258)) == hashlib.sha256(struct.pack("<ii", 1, 258)).hexdigest()
