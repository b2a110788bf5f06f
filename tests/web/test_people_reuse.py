"""People and the prefix cache: what is reused tells nobody what another has said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from storage.conversations import Conversations
from tests.web.client import Client
from tests.web.house import SECRET, a_person
from tests.web.serving import Served

LONG = f"{SECRET}, and nobody else in this house has to know of it"
OTHER = "what nobody has asked yet, and is as long as what somebody has asked"
SYSTEM = len("<system\nBe brief.>\n<user\n")


def warm(client: Client, text: str, **place: Any) -> int:
    ref = client.send("count", text=text, **place)
    return int(client.wait_for("counted", ref=ref)["context"]["warm"])


def cached(served: Served, reply_id: str) -> int:
    usage = Conversations(served.database).message(reply_id).usage
    assert usage is not None
    return int(usage["cached_tokens"])


@pytest.mark.row(15)
def test_how_much_of_a_text_is_reused_does_not_tell_whether_somebody_else_has_said_it(
    serve: Callable[..., Served],
) -> None:
    served = serve(lan=True)
    minji, jun = a_person(served, "Minji"), a_person(served, "Jun")
    hers, his, owner = (served.ready_client(cookie) for cookie in (minji, jun, served.owner()))
    first, _ = hers.say_and_wait(LONG)
    assert warm(hers, LONG) > SYSTEM + len(LONG)
    assert warm(his, LONG) == warm(owner, LONG) == SYSTEM
    accepted, _ = his.say_and_wait(LONG)
    assert cached(served, accepted["reply_id"]) == SYSTEM
    accepted, _ = his.say_and_wait(LONG)
    assert cached(served, accepted["reply_id"]) > SYSTEM + len(LONG)
    place = {"conversation_id": first["conversation_id"]}
    second, _ = hers.say_and_wait("go on", **place, parent_id=first["reply_id"])
    assert cached(served, second["reply_id"]) > SYSTEM + 2 * len(LONG)

    hidden = f"{LONG}, not even that"
    hers.say_and_wait(hidden)
    address = f"/api/conversations/{first['conversation_id']}/share"
    assert served.post(address, {"shared": "write"}, Cookie=minji).status_code == 204
    assert warm(hers, hidden) > SYSTEM + len(hidden)
    # In what she shares he sees what it says itself, and no more of hers.
    assert warm(his, hidden, **place) == warm(his, f"{LONG}{OTHER}", **place) == SYSTEM + len(LONG)
    edited = his.send("edit", text=hidden, message_id=first["user_id"], **place)
    reply_id = his.wait_for("accepted", ref=edited)["reply_id"]
    his.wait_for("finished", message_id=reply_id)
    assert cached(served, reply_id) == SYSTEM + len(LONG)
    third, _ = his.say_and_wait("and then", **place, parent_id=second["reply_id"])
    assert cached(served, third["reply_id"]) > cached(served, second["reply_id"])
