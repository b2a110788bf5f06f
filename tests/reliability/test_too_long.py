"""What the model cannot read is refused with both numbers, before anything is queued or stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select

from storage.tables import Conversation, Message
from tests.inference.doubles import CHATML, chat_tokenizer
from tests.reliability.test_double_send import CountingBackend
from tests.web.serving import Served

WINDOW = 512


@pytest.mark.row(9)
def test_a_prompt_over_the_context_is_refused_with_both_numbers_and_leaves_nothing(
    serve: Callable[..., Served],
) -> None:
    served = serve(window=WINDOW, kind=CountingBackend, template=CHATML)
    client = served.ready_client()
    first, _ = client.say_and_wait("short")
    before, begun = rows(served), served.backends[0].begun  # type: ignore[attr-defined]
    place = {"conversation_id": first["conversation_id"]}
    random, tokenizer = Random(9), chat_tokenizer()
    for number in range(50):
        text = random.choice(["x", "word ", "온돌", "🔥\n"]) * random.choice([WINDOW, 700, 2_000, 9_000])
        kind, fields = random.choice(
            [
                ("send", {"text": text}),
                ("send", {"text": text, "parent_id": first["reply_id"], **place}),
                ("edit", {"text": text, "message_id": first["user_id"], **place}),
            ]
        )
        command: dict[str, Any] = {"id": f"long{number}", **fields}
        if len(json.dumps(text)) > 60_000 or random.randrange(4) == 0:
            error = served.post("/messages", {"type": kind, **command}).json()
        else:
            client.send(kind, **command)
            error = client.wait_for("error", ref=command["id"])
        assert (error["code"], error["ref"], error["limit"]) == ("too_long", command["id"], WINDOW)
        assert error["needed"] > len(tokenizer.encode_text(text)) >= WINDOW
        assert f"{error['needed']:,}" in error["message"]
    assert rows(served) == before
    assert served.backends[0].begun == begun  # type: ignore[attr-defined]
    client.say_and_wait("what fits is answered", parent_id=first["reply_id"], **place)


def rows(served: Served) -> tuple[Any, ...]:
    """How many conversations and messages there are, and the newest change."""
    with served.database.read() as session:
        counts = [session.scalar(select(func.count()).select_from(kind)) for kind in (Conversation, Message)]
        return (*counts, session.scalar(select(func.max(Conversation.updated_at))))
