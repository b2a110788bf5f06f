"""The socket, from the outside: a message's whole path with a scripted model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from websockets.exceptions import ConnectionClosed

from tests.web.client import Client, shown
from tests.web.serving import Served

Serve = Callable[..., Served]


def test_a_message_is_accepted_written_and_stored(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    accepted, finished = client.say_and_wait("hello there")
    assert "hello there" in accepted["user_html"]
    assert finished["finish_reason"] == "stop"
    assert "hello there" in finished["html"]
    page = served.get(f"/c/{accepted['conversation_id']}").text
    assert page.count("hello there") >= 2


def test_the_stream_ends_with_what_is_stored(serve: Serve) -> None:
    text = "# Title\n\nOne *two*.\n\n```python\nx = 1\ny = 2\n```\n\n- a\n- b\n\n한국어 🔥 끝"
    client = serve(lambda prompt: text).ready_client()
    accepted, finished = client.say_and_wait("go")
    assert "한국어 🔥 끝" in finished["html"]
    assert "\ufffd" not in json.dumps(client.frames, ensure_ascii=False)
    assert "<h1>Title</h1>" in finished["html"]


def test_sequence_numbers_rise(serve: Serve) -> None:
    client = serve(lambda prompt: "word " * 60).ready_client()
    accepted, _ = client.say_and_wait("go")
    numbers = [f["seq"] for f in client.frames if f.get("message_id") == accepted["reply_id"]]
    assert numbers == sorted(set(numbers))


def test_a_second_turn_reads_the_first_and_reuses_it(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("one")
    second, finished = client.say_and_wait(
        "two", conversation_id=first["conversation_id"], parent_id=first["reply_id"]
    )
    assert second["conversation_id"] == first["conversation_id"]
    assert finished["context"]["history"] > 0
    assert "reused" in finished["html"]


def test_a_repeated_send_does_nothing_twice(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first = client.say("hello", id="same")
    client.wait_for("finished")
    again = client.say("hello", id="same")
    for name in ("conversation_id", "user_id", "reply_id"):
        assert again[name] == first[name]
    assert 'data-status="done"' in again["reply_html"]
    assert len(served.backends[0].computed) == len(served.backends[0].computed)
    client.send("send", id="same", text="something else")
    assert client.wait_for("error", ref="same")["code"] == "conflict"


def test_in_a_full_queue_a_message_is_refused_with_both_numbers_and_nothing_is_stored(serve: Serve) -> None:
    pace = threading.Semaphore(1)  # for the system prompt
    served = serve(pace=pace, engine={"max_sequences": 1, "max_waiting": 2})
    client = served.ready_client()
    running = client.say("the first")
    client.wait_for("prefill", message_id=running["reply_id"])
    client.say("the second")
    last = client.say("the third", id="third")
    refused = client.wait_for("error", ref=client.send("send", text="one too many", id="fourth"))
    assert refused["code"] == "busy"
    assert (refused["waiting"], refused["limit"]) == (2, 2)
    assert "2 of 2 places" in refused["message"]
    assert "one too many" not in served.get("/").text
    again = client.say("the third", id="third")
    assert again["reply_id"] == last["reply_id"]
    pace.release(100_000)
    client.wait_for("finished", message_id=last["reply_id"], finish_reason="stop")
    client.wait_for("finished", message_id=client.say("one too many", id="fourth")["reply_id"])


def test_a_message_that_cannot_fit_is_refused_with_both_numbers_and_nothing_is_stored(serve: Serve) -> None:
    served = serve(window=256)
    client = served.ready_client()
    ref = client.send("send", text="x" * 400)
    error = client.wait_for("error", ref=ref)
    assert error["code"] == "too_long"
    assert error["limit"] == 256
    assert error["needed"] > 400
    assert f"{error['needed']:,}" in error["message"]
    assert "Conversations appear here" in served.get("/").text


def test_history_that_no_longer_fits_is_left_out_visibly(serve: Serve) -> None:
    served = serve(window=400)
    client = served.ready_client()
    accepted = None
    for number in range(6):
        place = (
            {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}
            if accepted
            else {}
        )
        accepted, finished = client.say_and_wait(f"message {number} " + "x" * 30, **place)
    assert accepted is not None
    assert accepted["cut_id"] is not None
    assert finished["context"]["left_out"] > 0
    page = served.get(f"/c/{accepted['conversation_id']}").text
    transcript = page.partition('id="transcript"')[2]
    below_the_line = transcript.partition("the model reads from here")[2]
    assert below_the_line.partition('data-message-id="')[2].startswith(accepted["cut_id"])
    assert "message 0" in page


def test_the_count_tells_what_a_message_would_cost(serve: Serve) -> None:
    client = serve().ready_client()
    empty = client.wait_for("counted", ref=client.send("count", text=""))["context"]
    five = client.wait_for("counted", ref=client.send("count", text="xxxxx"))["context"]
    six = client.wait_for("counted", ref=client.send("count", text="xxxxxx"))["context"]
    assert empty["draft"] == 0
    assert five["draft"] > 5
    assert six["draft"] == five["draft"] + 1
    assert five["warm"] >= five["system"]


def test_stop_keeps_the_partial_reply(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: "abcdefghij" * 20, pace=pace)
    client = served.ready_client()
    accepted = client.say("go")
    client.wait_for("delta", message_id=accepted["reply_id"])
    client.send("stop", message_id=accepted["reply_id"])
    client.send("stop", message_id=accepted["reply_id"])
    client.settle()
    pace.release(3)
    finished = client.wait_for("finished", message_id=accepted["reply_id"])
    assert finished["finish_reason"] == "abort"
    assert "abcdef" in finished["html"]
    assert "after Stop" in finished["html"]
    assert "abcdef" in served.get(f"/c/{accepted['conversation_id']}").text


def test_any_client_can_watch_and_stop_a_reply(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: "abcdefghij" * 20, pace=pace)
    one, other = served.ready_client(), served.ready_client()
    accepted = one.say("go")
    one.wait_for("delta")
    ref = other.send("watch", conversation_id=accepted["conversation_id"])
    assert "go" in other.wait_for("snapshot", ref=ref)["html"]
    other.send("stop", message_id=accepted["reply_id"])
    other.settle()
    pace.release(3)
    for client in (one, other):
        assert client.wait_for("finished")["finish_reason"] == "abort"


def test_a_closed_tab_does_not_stop_a_reply_and_a_new_one_picks_it_up(serve: Serve) -> None:
    pace = threading.Semaphore(14)
    text = "one two three four five six seven eight"
    served = serve(lambda prompt: text, pace=pace)
    first = served.ready_client()
    accepted = first.say("go")
    seen = first.wait_for("delta")["seq"]
    first.close()
    second = served.ready_client()
    second.send(
        "watch",
        conversation_id=accepted["conversation_id"],
        head_id=accepted["reply_id"],
        after_seq=seen,
        running=True,
    )
    second.settle()
    pace.release(1_000)
    finished = second.wait_for("finished")
    assert text in finished["html"]


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 5])
def test_resuming_after_any_event_shows_the_same_text(serve: Serve, cut: int) -> None:
    text = "A *first* paragraph.\n\n```py\nline one\nline two\n```\n\nThe **last** one"
    pace = threading.Semaphore(8)
    served = serve(lambda prompt: text, pace=pace)
    whole, resumed = served.ready_client(), served.ready_client()
    accepted = whole.say("go")
    reply = accepted["reply_id"]
    for _ in range(6):
        pace.release(9)
        whole.wait_for("delta", message_id=reply)
    events = [f for f in whole.frames if f.get("message_id") == reply]
    before = events[: cut + 1]
    resumed.send(
        "watch",
        conversation_id=accepted["conversation_id"],
        head_id=reply,
        after_seq=before[-1]["seq"],
        running=True,
    )
    resumed.settle()
    pace.release(3)
    newest = whole.wait_for("delta", message_id=reply)
    resumed.wait_for("delta", message_id=reply, seq=newest["seq"])
    assert shown([*before, *resumed.frames], reply) == shown([*events, newest], reply)


def test_a_page_that_missed_the_end_gets_a_snapshot(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    accepted, _ = client.say_and_wait("hello")
    late = served.ready_client()
    ref = late.send(
        "watch", conversation_id=accepted["conversation_id"], head_id=accepted["reply_id"], running=True
    )
    assert 'data-status="done"' in late.wait_for("snapshot", ref=ref)["html"]


def test_another_watcher_sees_a_new_message_arrive(serve: Serve) -> None:
    served = serve()
    one, other = served.ready_client(), served.ready_client()
    first, _ = one.say_and_wait("one")
    other.send("watch", conversation_id=first["conversation_id"], head_id=first["reply_id"])
    other.settle()
    second = one.say("two", conversation_id=first["conversation_id"], parent_id=first["reply_id"])
    assert other.wait_for("accepted")["reply_id"] == second["reply_id"]
    other.wait_for("finished", message_id=second["reply_id"])


def test_a_message_while_the_last_reply_is_written_is_refused(serve: Serve) -> None:
    pace = threading.Semaphore(40)
    served = serve(lambda prompt: "abcdefghij" * 20, pace=pace)
    client = served.ready_client()
    accepted = client.say("go")
    ref = client.send(
        "send", text="more", conversation_id=accepted["conversation_id"], parent_id=accepted["reply_id"]
    )
    assert client.wait_for("error", ref=ref)["code"] == "busy"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("send", {"text": "x", "conversation_id": "nobody"}),
        ("send", {"text": "x", "conversation_id": "nobody", "parent_id": "nothing"}),
        ("watch", {"conversation_id": "nobody"}),
        ("count", {"text": "x", "conversation_id": "nobody"}),
    ],
)
def test_an_unknown_id_is_not_found(serve: Serve, kind: str, fields: dict[str, str]) -> None:
    client = serve().ready_client()
    ref = client.send(kind, **fields)
    assert client.wait_for("error", ref=ref)["code"] == "not_found"


def test_a_bad_frame_gets_one_error_and_the_socket_lives(serve: Serve) -> None:
    client = serve().ready_client()
    client.connection.send('{"type":"send","id":"a1","text":7}')
    assert client.wait_for("error")["ref"] == "a1"
    client.connection.send(b"\x00\xff")
    assert client.wait_for("error")["code"] == "bad_frame"
    client.say_and_wait("still here")


def test_a_frame_over_64_kib_is_refused(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    client.connection.send(json.dumps({"type": "count", "id": "a", "text": "x" * 65_600}))
    with pytest.raises(ConnectionClosed) as closed:
        client.wait_for("nothing")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    served.ready_client().say_and_wait("others are served")


def test_a_failing_computation_keeps_the_text_and_says_so(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: "abcdefghij" * 20, pace=pace)
    client = served.ready_client()
    accepted = client.say("go")
    client.wait_for("delta")
    served.backends[0].fail_with = RuntimeError("the matrix is too warm")
    pace.release(2)
    finished = client.wait_for("finished", message_id=accepted["reply_id"])
    assert finished["finish_reason"] == "error"
    assert "the matrix is too warm" in finished["html"]
    assert "abcdef" in finished["html"]


def test_messages_sent_while_the_weights_load_wait_in_the_queue(serve: Serve) -> None:
    pace = threading.Semaphore(0)
    served = serve(pace=pace)
    client: Client = served.client()
    while not client.wait_for("status")["can_send"]:
        pass
    accepted = client.say("early bird")
    queued = client.wait_for("queued", message_id=accepted["reply_id"])
    assert queued["position"] == 1
    pace.release(1_000)
    assert "early bird" in client.wait_for("finished")["html"]
