"""A model that thinks before it answers: from its tokens to the page and the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from storage.conversations import Conversations
from storage.records import MessageRecord
from tests.inference.families import GEMMA, KEEPS_REASONING, QWEN3
from tests.web.client import WAIT_S, Client
from tests.web.serving import Served

Serve = Callable[..., Served]
THOUGHT = "They <b>greet</b>.\n\n한국어로?"
REPLY = f"<think>\n{THOUGHT}\n</think>\n\nHi *there*."


def stored(served: Served, reply_id: str) -> MessageRecord:
    return Conversations(served.database).message(reply_id)


def streamed(client: Client, name: str) -> str:
    return "".join(frame.get(name, "") for frame in client.frames if frame["type"] == "delta")


def follow(client: Client, accepted: dict[str, Any], text: str) -> dict[str, Any]:
    return client.say_and_wait(
        text, conversation_id=accepted["conversation_id"], parent_id=accepted["reply_id"]
    )[0]


def test_reasoning_streams_as_text_and_is_stored_apart(serve: Serve) -> None:
    pace = threading.Semaphore(100)
    served = serve(lambda prompt: REPLY + " Hello." * 9, template=QWEN3, pace=pace)
    client = served.ready_client()
    accepted = client.say("hello")
    while "thought_s" not in client.wait_for("delta"):
        pace.release(9)
    assert streamed(client, "reasoning") == THOUGHT
    assert [frame["thought_s"] >= 0 for frame in client.frames if "thought_s" in frame] == [True]
    pace.release(1_000)
    html = client.wait_for("finished")["html"]
    assert "They &lt;b&gt;greet&lt;/b&gt;." in html
    assert "<p>Hi <em>there</em>. Hello." in html
    assert "think&gt;" not in html
    reply = stored(served, accepted["reply_id"])
    assert reply.reasoning == THOUGHT
    assert reply.text == "Hi *there*." + " Hello." * 9
    assert reply.usage is not None
    assert reply.usage["reasoning_tokens"] == len(f"<think>\n{THOUGHT}\n</think>".encode())
    assert "한국어로?" in served.get(f"/c/{accepted['conversation_id']}").text


def test_marks_in_the_answer_of_a_model_that_does_not_think_are_text(serve: Serve) -> None:
    served = serve(lambda prompt: REPLY)
    accepted, finished = served.ready_client().say_and_wait("hello")
    assert "&lt;think&gt;" in finished["html"]
    assert 'class="reasoning"' not in finished["html"]
    assert stored(served, accepted["reply_id"]).reasoning is None


@pytest.mark.parametrize("cut", [0, 2, 4, 6])
def test_resuming_after_any_event_shows_the_same_reasoning(serve: Serve, cut: int) -> None:
    pace = threading.Semaphore(30)
    served = serve(lambda prompt: REPLY + " Hello." * 20, template=QWEN3, pace=pace)
    whole, resumed = served.ready_client(), served.ready_client()
    accepted = whole.say("go")
    reply = accepted["reply_id"]
    while "thought_s" not in whole.wait_for("delta", message_id=reply):
        pace.release(9)
    before = [frame for frame in whole.frames if frame.get("message_id") == reply][: cut + 1]
    resumed.frames = list(before)
    resumed.send(
        "watch",
        conversation_id=accepted["conversation_id"],
        head_id=reply,
        after_seq=before[-1]["seq"],
        running=True,
    )
    resumed.settle()
    pace.release(9)
    newest = whole.wait_for("delta", message_id=reply)
    resumed.wait_for("delta", message_id=reply, seq=newest["seq"])
    assert streamed(resumed, "reasoning") == streamed(whole, "reasoning") != ""
    assert any("thought_s" in frame for frame in resumed.frames)
    pace.release(1_000)


def test_a_page_that_opens_in_the_middle_shows_what_was_thought_so_far(serve: Serve) -> None:
    pace = threading.Semaphore(30)
    served = serve(lambda prompt: REPLY, template=QWEN3, pace=pace)
    client = served.ready_client()
    accepted = client.say("go")
    while "They <b" not in streamed(client, "reasoning"):
        pace.release(3)
        client.receive()
    page = served.get(f"/c/{accepted['conversation_id']}").text
    article = page.partition('data-status="running"')[2]
    assert "They &lt;b" in article
    assert "Thinking…" in article
    pace.release(1_000)


def test_a_stop_within_the_reasoning_keeps_it(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: "<think>\n" + "so " * 200, template=QWEN3, pace=pace)
    client = served.ready_client()
    accepted = client.say("go")
    client.wait_for("delta")
    client.send("stop", message_id=accepted["reply_id"])
    client.settle()
    pace.release(1_000)
    finished = client.wait_for("finished")
    reply = stored(served, accepted["reply_id"])
    assert reply.text == ""
    assert (reply.reasoning or "").startswith("so so")
    assert "so so" in finished["html"]
    follow(client, accepted, "again")


def test_reasoning_is_saved_while_it_is_written(serve: Serve) -> None:
    pace = threading.Semaphore(100)
    served = serve(lambda prompt: "<think>\n" + "so " * 200, template=QWEN3, pace=pace)
    accepted = served.ready_client().say("go")
    deadline = time.monotonic() + WAIT_S
    while not (stored(served, accepted["reply_id"]).reasoning or "").startswith("so so"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert stored(served, accepted["reply_id"]).finished_at is None
    pace.release(1_000)


def test_the_next_turn_reuses_what_the_template_keeps_and_says_what_it_leaves_out(serve: Serve) -> None:
    for template, lost in ((KEEPS_REASONING, None), (QWEN3, "leaves out the reasoning of earlier replies")):
        served = serve(lambda prompt: REPLY, template=template)
        client = served.ready_client()
        first, _ = client.say_and_wait("hello")
        second = stored(served, follow(client, first, "go on")["reply_id"])
        earlier = stored(served, first["reply_id"]).usage
        assert second.usage is not None
        assert second.context is not None
        assert earlier is not None
        computed = earlier["prompt_tokens"] + earlier["completion_tokens"] - 1
        if lost is None:
            assert second.usage["cached_tokens"] >= computed
            assert second.context["reuse_lost"] is None
        else:
            opening = len("assistant\n") + 1
            assert second.usage["cached_tokens"] >= earlier["prompt_tokens"] - opening
            assert lost in second.context["reuse_lost"]
        served.close()


def test_thinking_can_be_switched_off(serve: Serve) -> None:
    opening = "assistant\n<think>\n\n</think>\n\n"
    served = serve(lambda prompt: "Hi.", template=KEEPS_REASONING, thinking=False, opening=opening)
    accepted, _ = served.ready_client().say_and_wait("hello")
    record = stored(served, accepted["reply_id"])
    assert record.context is not None
    assert record.context["thinking"] is False
    assert (record.text, record.reasoning) == ("Hi.", None)


def test_a_model_without_a_system_role_says_where_the_system_text_is(serve: Serve) -> None:
    template = GEMMA.replace("start_of_turn", "|im_start|").replace("end_of_turn", "|im_end|")
    served = serve(lambda prompt: "Hi.", template=template, opening="model\n")
    accepted, _ = served.ready_client().say_and_wait("hello")
    record = stored(served, accepted["reply_id"])
    assert record.context is not None
    assert record.context["system_folded"] is True
    assert record.context["system"] >= len("Be brief.")
    assert "System text · in the first message" in served.get(f"/c/{accepted['conversation_id']}").text


def test_a_reply_that_was_stopped_while_it_thought_goes_on_thinking(serve: Serve) -> None:
    pace = threading.Semaphore(30)
    served = serve(lambda prompt: REPLY, template=QWEN3, pace=pace)
    client = served.ready_client()
    accepted = client.say("hello")
    client.wait_for("delta")
    client.send("stop", message_id=accepted["reply_id"])
    client.settle()
    pace.release(3)
    client.wait_for("finished", finish_reason="abort")
    half = stored(served, accepted["reply_id"])
    assert half.reasoning
    assert (half.text, THOUGHT.startswith(half.reasoning)) == ("", True)
    pace.release(1_000)
    place = {"conversation_id": accepted["conversation_id"], "message_id": accepted["reply_id"]}
    client.send("continue", **place)
    client.wait_for("finished", finish_reason="stop")
    whole = stored(served, accepted["reply_id"])
    assert (whole.reasoning, whole.text) == (THOUGHT, "Hi *there*.")
    assert whole.timings is not None
    assert half.timings is not None
    assert whole.timings["reasoning_s"] >= half.timings["reasoning_s"]
