"""A server that is told to end while a reply is written and a client takes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from storage.records import Status
from tests.reliability.deaf import Deaf
from tests.reliability.house import House, answer
from tests.reliability.stored import fill, replies
from tests.web.serving import Client

END_S = 8
SERVICE_RESTART = 1012


def code_at_the_end(client: Client) -> int | None:
    """Take what comes until the socket is closed; with which code."""
    with pytest.raises(ConnectionClosed) as closed:
        client.wait_for("nothing")
    return closed.value.rcvd.code if closed.value.rcvd else None


@pytest.mark.row(19)
def test_the_server_ends_in_time_beside_a_client_that_never_reads(tmp_path: Path, long: bool) -> None:
    conversation = fill(tmp_path / "data")
    for number in range(100 if long else 10):
        question = f"write end{number} 40"
        with House(tmp_path, step_s=0.02) as house, Deaf(house) as deaf:
            talking, watching = house.client(), house.client()
            deaf.say("watch", id="w", conversation_id=conversation)
            watching.send("watch", conversation_id=talking.say(question)["conversation_id"])
            for client in (talking, watching):
                client.wait_for("delta")
            assert house.end(END_S) == 0
            assert [code_at_the_end(client) for client in (talking, watching)] == [SERVICE_RESTART] * 2
            assert deaf.is_dropped()
            log = house.log
        assert "Traceback" not in log
        assert "Cancel" not in log
        (tmp_path / "log").unlink()
        reply = replies(tmp_path / "data")[question]
        assert reply.status is Status.INTERRUPTED
        assert answer(question).startswith(reply.text)
        assert reply.text
