"""Branches over the socket: other replies, edits, continuations, switching and deleting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from storage.conversations import Conversations
from tests.inference.doubles import chat_tokenizer
from tests.web.client import Client
from tests.web.serving import Served

Serve = Callable[..., Served]
Frame = dict[str, Any]

LETTERS = "abcdefghij" * 12


def place(accepted: Frame, message: str = "reply_id") -> Frame:
    return {"conversation_id": accepted["conversation_id"], "message_id": accepted[message]}


def after(accepted: Frame) -> Frame:
    return {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}


def begin(client: Client, kind: str, **fields: Any) -> tuple[Frame, Frame]:
    """Send what begins a reply; its `accepted` and `finished`."""
    accepted = client.wait_for("accepted", ref=client.send(kind, **fields))
    return accepted, client.wait_for("finished", message_id=accepted["reply_id"])


def stopped(served: Served, client: Client, pace: threading.Semaphore) -> Frame:
    """The `accepted` of a reply that was stopped in its middle."""
    accepted = client.say("go")
    client.wait_for("delta", message_id=accepted["reply_id"])
    client.send("stop", message_id=accepted["reply_id"])
    client.settle()
    pace.release(3)
    client.wait_for("finished", message_id=accepted["reply_id"], finish_reason="abort")
    return accepted


def stored(served: Served, message_id: str) -> Any:
    return Conversations(served.database).message(message_id)


def page(served: Served, accepted: Frame) -> str:
    """The transcript of the conversation's page."""
    html = served.get(f"/c/{accepted['conversation_id']}").text
    return html.partition('id="transcript"')[2].partition('class="empty"')[0]


def test_another_reply_has_another_seed_and_both_stay(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    again, finished = begin(client, "regenerate", **place(first))
    assert (again["user_html"], again["parent_id"]) == (None, first["user_id"])
    assert "2/2" in finished["html"]
    one, other = stored(served, first["reply_id"]), stored(served, again["reply_id"])
    assert one.parent_id == other.parent_id == first["user_id"]
    assert one.params["seed"] != other.params["seed"]
    assert other.usage["cached_tokens"] >= other.usage["prompt_tokens"] - 1


def test_an_edit_stands_beside_the_message_with_a_reply_of_its_own(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("one")
    second, _ = client.say_and_wait("two", **after(first))
    edited, finished = begin(client, "edit", text="three", **place(second, "user_id"))
    assert edited["parent_id"] == first["reply_id"]
    assert "2/2" in edited["user_html"]
    assert "three" in finished["html"]
    shown = page(served, first)
    assert "three" in shown
    assert "two" not in shown
    ref = client.send("switch", **place(second, "user_id"))
    moved = client.wait_for("switched", ref=ref)
    assert (moved["kept_id"], "two" in moved["html"]) == (first["reply_id"], True)
    assert "two" in page(served, first)


def test_a_stopped_reply_goes_on_as_if_it_had_not_been_stopped(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: LETTERS, pace=pace)
    client = served.ready_client()
    accepted = stopped(served, client, pace)
    half = stored(served, accepted["reply_id"])
    assert LETTERS.startswith(half.text)
    assert "Continue this reply" in page(served, accepted)
    pace.release(100_000)
    going, finished = begin(client, "continue", **place(accepted))
    assert going["reply_id"] == accepted["reply_id"]
    assert half.text in going["reply_html"]
    whole = stored(served, accepted["reply_id"])
    assert (whole.text, whole.finish_reason) == (LETTERS, "stop")
    assert whole.token_ids == chat_tokenizer().encode_text(LETTERS)
    begun = len(half.token_ids)
    assert whole.context["begun"] == begun
    assert whole.context["continued"][0]["usage"] == half.usage
    assert whole.usage["prompt_tokens"] == half.usage["prompt_tokens"] + begun
    assert whole.usage["cached_tokens"] >= half.usage["prompt_tokens"] + begun - 2
    assert whole.usage["completion_tokens"] == len(LETTERS) - begun
    assert f"{len(LETTERS)} tok" in finished["html"]
    assert "Continue this reply" not in finished["html"]


def test_a_character_cut_by_stop_is_whole_after_it_goes_on(serve: Serve) -> None:
    pace = threading.Semaphore(7)  # system prompt and question, then bytes of Hangul
    text = "가나다라마바사"
    served = serve(lambda prompt: text, pace=pace, engine={"prefill_chunk": 512})
    client = served.ready_client()
    accepted = stopped(served, client, pace)
    half = stored(served, accepted["reply_id"])
    assert len(half.token_ids) % 3 != 0
    pace.release(100_000)
    begin(client, "continue", **place(accepted))
    assert stored(served, accepted["reply_id"]).text == text


def test_a_reply_that_goes_on_and_is_killed_keeps_what_it_had(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: LETTERS, pace=pace)
    client = served.ready_client()
    accepted = stopped(served, client, pace)
    half = stored(served, accepted["reply_id"]).text
    client.wait_for("accepted", ref=client.send("continue", **place(accepted)))
    conversations = Conversations(served.database)
    assert conversations.interrupt_leftovers() == 1  # as the next start does
    kept = conversations.message(accepted["reply_id"])
    assert (kept.text, kept.status) == (half, "interrupted")
    assert kept.context["continued"][0]["finish_reason"] == "abort"


def test_a_whole_reply_and_one_that_was_answered_do_not_go_on(serve: Serve) -> None:
    client = serve().ready_client()
    first, _ = client.say_and_wait("hello")
    error = client.wait_for("error", ref=client.send("continue", **place(first)))
    assert (error["code"], "nothing to continue" in error["message"]) == ("conflict", True)


def test_every_command_is_idempotent_also_after_a_restart(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: LETTERS, pace=pace)
    client = served.ready_client()
    first = stopped(served, client, pace)
    pace.release(100_000)
    commands: list[tuple[str, Frame]] = [
        ("continue", {"id": "c", **place(first)}),
        ("regenerate", {"id": "r", **place(first)}),
        ("edit", {"id": "e", "text": "other", **place(first, "user_id")}),
    ]
    made = [begin(client, kind, **fields)[0]["reply_id"] for kind, fields in commands]
    before = len(served.backends[0].computed)
    again = [client.wait_for("accepted", ref=client.send(k, **f))["reply_id"] for k, f in commands]
    assert again == made
    assert len(served.backends[0].computed) == before
    for used in ("c", "r", "e"):
        error = client.wait_for("error", ref=client.send("send", text="x", id=used))
        assert error["code"] == "conflict"
    served.close()
    other = serve(lambda prompt: LETTERS).ready_client()
    for (kind, fields), reply_id in zip(commands, made, strict=True):
        accepted = other.wait_for("accepted", ref=other.send(kind, **fields))
        assert accepted["reply_id"] == reply_id
        assert 'data-status="done"' in accepted["reply_html"]


def test_a_running_reply_refuses_what_would_change_it(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    client = serve(lambda prompt: LETTERS, pace=pace).ready_client()
    running = client.say("go")
    client.wait_for("delta")
    for kind, fields in [
        ("edit", {"text": "x", **place(running, "user_id")}),
        ("regenerate", place(running)),
        ("continue", place(running)),
        ("delete_branch", place(running)),
        ("delete_branch", place(running, "user_id")),
    ]:
        assert client.wait_for("error", ref=client.send(kind, **fields))["code"] == "busy"


@pytest.mark.parametrize(
    "kind", ["edit", "regenerate", "continue", "switch", "delete_branch", "restore_branch"]
)
def test_foreign_and_missing_ids_are_not_told_apart(serve: Serve, kind: str) -> None:
    client = serve().ready_client()
    mine, _ = client.say_and_wait("mine")
    other, _ = client.say_and_wait("other")
    text = {"text": "x"} if kind == "edit" else {}
    name = "user_id" if kind == "edit" else "reply_id"
    errors = []
    for conversation_id, message_id in [
        (mine["conversation_id"], other[name]),
        (mine["conversation_id"], "absent"),
        ("absent", mine[name]),
    ]:
        ref = client.send(kind, conversation_id=conversation_id, message_id=message_id, **text)
        errors.append(client.wait_for("error", ref=ref)["code"])
    assert errors == ["not_found"] * 3


def test_an_edit_that_cannot_fit_is_refused_with_both_numbers_and_nothing_is_stored(serve: Serve) -> None:
    served = serve(window=256)
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    ref = client.send("edit", text="x" * 400, **place(first, "user_id"))
    error = client.wait_for("error", ref=ref)
    assert (error["code"], error["limit"], error["needed"] > 400) == ("too_long", 256, True)
    assert 'class="versions"' not in page(served, first)


def test_in_a_full_queue_nothing_of_a_branch_is_stored(serve: Serve) -> None:
    pace = threading.Semaphore(100)
    served = serve(pace=pace, engine={"max_sequences": 1, "max_waiting": 1})
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    while pace.acquire(blocking=False):
        pass
    client.wait_for("prefill", message_id=client.say("running")["reply_id"])
    client.say("waiting")
    for kind, fields in [("regenerate", place(first)), ("edit", {"text": "x", **place(first, "user_id")})]:
        assert client.wait_for("error", ref=client.send(kind, **fields))["code"] == "busy"
    assert 'class="versions"' not in page(served, first)
    pace.release(100_000)


def test_other_devices_see_branches_come_and_go(serve: Serve) -> None:
    served = serve()
    one, other = served.ready_client(), served.ready_client()
    first, _ = one.say_and_wait("hello")
    other.send("watch", conversation_id=first["conversation_id"], head_id=first["reply_id"])
    other.settle()
    again, _ = begin(one, "regenerate", **place(first))
    assert other.wait_for("accepted")["reply_id"] == again["reply_id"]
    other.wait_for("finished", message_id=again["reply_id"])
    for client, kind, message_id, shown in [
        (one, "switch", first["reply_id"], first["reply_id"]),
        (other, "delete_branch", first["reply_id"], again["reply_id"]),
        (one, "restore_branch", first["reply_id"], first["reply_id"]),
    ]:
        ref = client.send(kind, conversation_id=first["conversation_id"], message_id=message_id)
        for each in (one, other):
            html = each.wait_for("switched", ref=ref)["html"]
            assert html.count("<article") == 1
            assert f'data-message-id="{shown}"' in html


def test_a_running_reply_is_picked_up_again_when_its_branch_is_looked_at(serve: Serve) -> None:
    pace = threading.Semaphore(100)
    served = serve(lambda prompt: LETTERS, pace=pace, engine={"prefill_chunk": 512})
    client = served.ready_client()
    first = stopped(served, client, pace)
    again = client.wait_for("accepted", ref=client.send("regenerate", **place(first)))
    client.wait_for("switched", ref=client.send("switch", **place(first)))
    back = client.wait_for("switched", ref=client.send("switch", **place(again)))
    assert 'aria-busy="true"' in back["html"]
    pace.release(100_000)
    assert client.wait_for("finished", message_id=again["reply_id"])["finish_reason"] == "stop"


def test_a_page_that_missed_how_a_reply_went_on_gets_a_snapshot(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: LETTERS, pace=pace)
    client = served.ready_client()
    first = stopped(served, client, pace)
    seen = int(stored(served, first["reply_id"]).finished_at.timestamp() * 1000)
    where = {"conversation_id": first["conversation_id"], "head_id": first["reply_id"]}
    late = served.ready_client()
    late.send("watch", **where, after_seq=seen)
    late.settle()
    assert not any(frame["type"] == "snapshot" for frame in late.frames)
    pace.release(100_000)
    begin(client, "continue", **place(first))
    ref = late.send("watch", **where, after_seq=seen)
    assert LETTERS in late.wait_for("snapshot", ref=ref)["html"]


def test_the_cut_of_a_branch_comes_back_with_it(serve: Serve) -> None:
    served = serve(window=400)
    client = served.ready_client()
    turns = [client.say_and_wait("message 0 " + "x" * 30)[0]]
    for number in range(1, 6):
        turns.append(client.say_and_wait(f"message {number} " + "x" * 30, **after(turns[-1]))[0])
    cut = turns[-1]["cut_id"]
    assert cut is not None
    edited, finished = begin(client, "edit", text="short", **place(turns[1], "user_id"))
    assert edited["cut_id"] is None
    assert finished["context"]["left_out"] == 0
    assert "the model reads from here" not in page(served, edited)
    moved = client.wait_for("switched", ref=client.send("switch", **place(turns[1], "user_id")))
    assert moved["cut_id"] == cut
    assert (
        page(served, edited)
        .partition("the model reads from here")[2]
        .partition('message-id="')[2]
        .startswith(cut)
    )


def test_an_answer_that_was_deleted_can_be_asked_for_again(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    moved = client.wait_for("switched", ref=client.send("delete_branch", **place(first)))
    assert (moved["kept_id"], "<article" in moved["html"]) == (first["user_id"], False)
    assert "Answer this" in page(served, first)
    again, _ = begin(client, "regenerate", **place(first, "user_id"))
    assert again["parent_id"] == first["user_id"]
    client.wait_for("switched", ref=client.send("delete_branch", **place(first, "user_id")))
    assert "<article" not in page(served, first)
    client.say_and_wait("anew", conversation_id=first["conversation_id"])


def test_a_long_text_goes_by_post_exactly_and_once(serve: Serve) -> None:
    served = serve(window=200_000)
    client = served.ready_client()
    text = '한글 and "quotes"\r\n\t🔥 ' * 3_000
    assert len(text.encode()) > 65_536
    frame = {"type": "send", "id": "long", "text": text}
    accepted = served.post("/messages", frame).json()
    assert (accepted["type"], accepted["ref"]) == ("accepted", "long")
    assert stored(served, accepted["user_id"]).text == text
    assert served.get(f"/api/messages/{accepted['user_id']}/text").text == text
    assert served.post("/messages", frame).json()["reply_id"] == accepted["reply_id"]
    counted = served.post("/messages", {"type": "count", "id": "c", "text": text}).json()
    assert counted["context"]["draft"] > len(text)
    client.send("watch", conversation_id=accepted["conversation_id"])
    edit = {"type": "edit", "id": "e", "text": text + "!", **place(accepted, "user_id")}
    while served.post("/messages", edit).json()["type"] == "error":
        client.send("stop", message_id=accepted["reply_id"])
    assert client.wait_for("accepted", ref="e")["parent_id"] is None


def test_a_text_that_cannot_fit_is_refused_by_post_as_by_the_socket(serve: Serve) -> None:
    served = serve()
    served.ready_client()
    error = served.post("/messages", {"type": "send", "id": "a", "text": "x" * 100_000}).json()
    assert (error["code"], error["ref"], error["limit"]) == ("too_long", "a", 512)
    assert error["needed"] > 100_000
    error = served.post("/messages", {"type": "send", "id": "a", "text": "가" * 400_000}).json()
    assert (error["code"], "1,200,000 bytes" in error["message"]) == ("bad_frame", True)
    assert (
        served.post("/messages", {"type": "stop", "id": "a", "message_id": "m"}).json()["code"] == "bad_frame"
    )
    assert served.post("/messages", {"text": "x" * 7_000_000}).status_code == 413
    assert served.post("/messages", {}, Origin="http://evil.test").status_code == 403
    assert served.get("/api/messages/absent/text").status_code == 404
