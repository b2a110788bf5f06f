"""A server that is told to end while a reply is written and a client takes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from storage.records import Status
from tests.reliability.deaf import Deaf
from tests.reliability.house import House, answer
from tests.reliability.stored import fill, replies
from tests.web.client import Client

END_S = 8
SERVICE_RESTART = 1012


def code_at_the_end(client: Client) -> int | None:
    """Take what comes until the socket is closed; with which code."""
    with pytest.raises(ConnectionClosed) as closed:
        client.wait_for("nothing")
    return closed.value.rcvd.code if closed.value.rcvd else None


def end_beside_a_deaf_one(folder: Path, conversation: str, times: int) -> None:
    """Start a server, end it while a reply is written, and look what was kept; again and again."""
    for number in range(times):
        question = f"write end{number} 40"
        with House(folder, step_s=0.02) as house, Deaf(house) as deaf:
            talking, watching = house.client(), house.client()
            deaf.say("watch", id="w", conversation_id=conversation)
            watching.send("watch", conversation_id=talking.say(question)["conversation_id"])
            for client in (talking, watching):
                client.wait_for("delta")
            assert house.end(END_S) == 0
            assert [code_at_the_end(client) for client in (talking, watching)] == [SERVICE_RESTART] * 2
            assert deaf.is_dropped()
            assert "Traceback" not in house.log
            assert "Cancel" not in house.log
        reply = replies(folder / "data")[question]
        assert reply.status is Status.INTERRUPTED
        assert answer(question).startswith(reply.text)
        assert reply.text


@pytest.mark.row(19)
def test_the_server_ends_in_time_beside_a_client_that_never_reads(tmp_path: Path, long: bool) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    conversations = [fill(folder / "data") for folder in folders]
    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(end_beside_a_deaf_one, folders, conversations, [50 if long else 5] * len(folders)))
