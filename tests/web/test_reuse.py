"""Why an earlier turn's work is of no use any more: from the records, and through the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from storage.conversations import Conversations
from storage.listing import Listing
from storage.records import MessageRecord, Status
from tests.web.serving import Served
from web.reuse import reusable_tokens, why_lost

Serve = Callable[..., Served]
CONTEXT = {"left_out": [], "template_hash": "t", "system_hash": "s", "reuse_lost": None}
USAGE = {"prompt_tokens": 100, "cached_tokens": 0, "completion_tokens": 20}
LONG = "a question that is longer than one block of tokens "


def reply(**changes: Any) -> MessageRecord:
    values: dict[str, Any] = {
        "id": "r",
        "conversation_id": "c",
        "parent_id": "u",
        "client_id": None,
        "role": "assistant",
        "text": "Yes.",
        "status": Status.DONE,
        "created_at": datetime.now(UTC),
        "model": "Model",
        "usage": USAGE,
        "context": CONTEXT,
        "finish_reason": "stop",
    }
    return MessageRecord(**{**values, **changes})


@pytest.mark.parametrize(
    ("earlier", "now", "expected"),
    [
        ({}, {}, None),
        ({}, {"left_out": ["m"]}, "older messages were left out to make room"),
        ({"context": {**CONTEXT, "left_out": ["m"]}}, {"left_out": ["m"]}, None),
        ({"model": "Other"}, {"left_out": ["m"]}, "another model wrote the earlier replies"),
        ({}, {"system_hash": "other"}, "the system prompt was changed"),
        ({}, {"template_hash": "other"}, "the template changed the text"),
        ({}, {"template_hash": "other", "reuse_lost": "1 reply ..."}, "1 reply ..."),
        ({}, {"reuse_lost": "1 reply ..."}, "1 reply ..."),
        ({"context": {}}, {}, None),
        ({"context": None}, {}, None),
    ],
)
def test_the_records_tell_why_the_prompt_begins_otherwise(
    earlier: dict[str, Any], now: dict[str, Any], expected: str | None
) -> None:
    assert why_lost([reply(**earlier)], "Model", {**CONTEXT, **now}) == expected


def test_the_first_turn_has_lost_nothing() -> None:
    assert why_lost([], "Model", CONTEXT) is None
    assert reusable_tokens([], None) == 0


@pytest.mark.parametrize(
    ("changes", "lost", "expected"),
    [
        ({}, None, 119),
        ({}, "the template changed the text", 0),
        ({"usage": None}, None, 0),
        ({"text": ""}, None, 0),
        ({"finish_reason": "error"}, None, 0),
        ({"finish_reason": None, "status": Status.INTERRUPTED}, None, 119),
    ],
)
def test_what_the_last_turn_computed_can_be_reused(
    changes: dict[str, Any], lost: str | None, expected: int
) -> None:
    assert reusable_tokens([reply(**changes)], lost) == expected


def of_reply(served: Served, reply_id: str) -> MessageRecord:
    return Conversations(served.database).message(reply_id)


def cached(served: Served, reply_id: str) -> int:
    usage = of_reply(served, reply_id).usage
    assert usage is not None
    return int(usage["cached_tokens"])


def test_the_first_reply_after_a_restart_is_warm(serve: Serve) -> None:
    served = serve()
    first, _ = served.ready_client().say_and_wait(LONG)
    served.close()
    again = serve()
    second, _ = again.ready_client().say_and_wait(
        "go on", conversation_id=first["conversation_id"], parent_id=first["reply_id"]
    )
    record = of_reply(again, second["reply_id"])
    assert record.usage is not None
    assert record.context is not None
    assert record.usage["cached_tokens"] > 2 * len(LONG)
    assert record.context["reuse_lost"] is None


def test_history_that_left_is_given_as_the_reason(serve: Serve) -> None:
    served = serve(lambda prompt: "yes " * 10)
    client = served.ready_client()
    place: dict[str, str] = {}
    reasons = []
    for number in range(6):
        accepted, _ = client.say_and_wait(f"{number} {LONG}", **place)
        place = {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}
        context = of_reply(served, accepted["reply_id"]).context
        assert context is not None
        reasons.append(context["reuse_lost"])
    assert set(reasons) == {None, "older messages were left out to make room"}


def files(folder: Path) -> list[Path]:
    return list((folder / "data" / "prefix-cache").glob("*.safetensors"))


def test_deleting_a_conversation_leaves_none_of_it_in_the_cache(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    client = served.ready_client()
    accepted, _ = client.say_and_wait(LONG)
    deadline = time.monotonic() + 20
    while len(files(tmp_path)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    served.post(f"/api/conversations/{accepted['conversation_id']}/delete", {})
    assert len(files(tmp_path)) >= 3  # it may still be brought back
    served.close()
    served = serve()
    client = served.ready_client()
    assert len(files(tmp_path)) == 1  # the system prompt
    again, _ = client.say_and_wait(LONG)
    assert cached(served, again["reply_id"]) == len("<system\nBe brief.>\n<user\n")


def test_what_a_killed_server_had_not_forgotten_is_forgotten_at_the_next_start(
    serve: Serve, tmp_path: Path
) -> None:
    served = serve()
    accepted, _ = served.ready_client().say_and_wait(LONG)
    Listing(served.database).delete(accepted["conversation_id"])
    served.close()
    assert len(files(tmp_path)) > 1
    serve().get("/")
    assert len(files(tmp_path)) == 1


def test_a_conversation_that_is_deleted_while_a_reply_is_written_leaves_nothing_either(
    serve: Serve, tmp_path: Path
) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: "abc" * 100, pace=pace)
    client = served.ready_client()
    accepted = client.say(LONG)
    client.wait_for("delta")
    served.post(f"/api/conversations/{accepted['conversation_id']}/delete", {})
    pace.release(100_000)
    client.wait_for("error", ref=accepted["reply_id"])
    served.close()
    assert len(files(tmp_path)) == 1
