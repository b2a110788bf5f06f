"""A worker that dies or hangs, as people, `/health` and whoever watches the process see it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from inference.errors import OutOfMemory
from inference.models.prepared import PreparedModel
from storage.checking import check
from storage.conversations import Conversations
from storage.database import Database
from storage.files import FILE_NAME
from tests.inference.doubles import prepare_double
from tests.web.client import WAIT_S, Client
from tests.web.serving import Served
from web.ending import EXIT_HUNG

Serve = Callable[..., Served]
ROOT = Path(__file__).resolve().parents[2]


class Dies(BaseException):
    """What no step catches."""


def test_loading_for_the_first_time_is_healthy(serve: Serve, tmp_path: Path) -> None:
    gate = threading.Event()

    def prepare(*_: object) -> PreparedModel:
        gate.wait(WAIT_S)
        return prepare_double(tmp_path / "model")

    served = serve(prepare=prepare)
    answer = served.get("/health")
    gate.set()
    assert answer.status_code == 200
    assert answer.json() == {"worker": "alive", "model": "waiting"}


def test_a_worker_that_died_is_unhealthy_until_the_next_one_is_ready(serve: Serve, tmp_path: Path) -> None:
    gate, loads = threading.Event(), []

    def prepare(*_: object) -> PreparedModel:
        loads.append(None)
        if len(loads) > 1:
            gate.wait(WAIT_S)
        return prepare_double(tmp_path / "model")

    served = serve(prepare=prepare)
    client = served.ready_client()
    served.backends[0].fail_with = Dies("/home/me/secret is lost")
    accepted = client.say("one")
    finished = client.wait_for("finished", message_id=accepted["reply_id"])
    assert finished["finish_reason"] == "error"
    assert "is lost" in finished["html"]
    loading = served.client().wait_for("status", phase="loading")
    assert "loaded again" in loading["message"]
    assert loading["can_send"]
    health = served.get("/health")
    assert health.status_code == 503
    assert health.json()["worker"] == "restarting"
    assert "secret" not in health.text
    waiting = client.say("two")
    queued = client.wait_for("queued", message_id=waiting["reply_id"])
    assert queued["loading"]
    gate.set()
    client.wait_for("finished", message_id=waiting["reply_id"], finish_reason="stop")
    assert served.get("/health").json() == {"worker": "alive", "model": "ready"}


def test_a_hang_is_unhealthy_and_told_and_keeps_what_was_written(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: "abcdefghij" * 20, pace=pace, engine={"step_limit_s": 0.5})
    client = served.ready_client()
    accepted = client.say("go")
    finished = client.wait_for("finished", message_id=accepted["reply_id"])
    assert "abcdef" in finished["html"]
    assert "Interrupted" in finished["html"]
    assert "more than 0.5 s" in served.hangs.get(timeout=WAIT_S)
    assert len([record for record in served.leaks.log if accepted["reply_id"] in record]) == 1
    health = served.get("/health")
    assert health.status_code == 503
    assert health.json()["worker"] == "hung"
    refused = client.wait_for("error", ref=client.send("send", text="hello"))
    assert refused["code"] == "model_failed"


@pytest.mark.row(17)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("the matrix is too warm"), "the matrix is too warm"),
        (OutOfMemory("tried to allocate 12 GiB"), "The memory ran out"),
    ],
)
def test_a_failing_step_is_told_and_the_next_request_works_time_after_time(
    serve: Serve, long: bool, caplog: pytest.LogCaptureFixture, error: Exception, said: str
) -> None:
    served = serve()
    client = served.ready_client()
    for number in range(1, 51 if long else 6):
        served.backends[0].fail_with = error
        accepted, finished = client.say_and_wait(f"secret {number}")
        assert finished["finish_reason"] == "error"
        assert said in finished["html"]
        told = [record for record in caplog.records if accepted["reply_id"] in record.getMessage()]
        assert len(told) == 1
        _, whole = client.say_and_wait(f"works again {number}")
        assert f"works again {number}" in whole["html"]
    assert "secret" not in caplog.text
    assert len(served.backends) == 1


def hang(folder: Path, earlier: list[str]) -> str:
    """Let the worker of a server hang in which every earlier reply is as it was left; the conversation whose
    reply was written then.
    """
    command = [sys.executable, "-m", "tests.web.hanging_server", str(folder), "60"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().partition("Ondol is at ")[2].split()[0]
        for conversation_id in earlier:
            page = httpx2.get(f"{url}/c/{conversation_id}").text
            assert "abcdefghij" in page
            assert "Interrupted" in page
        with connect(url.replace("http", "ws") + "/ws", origin=url, max_size=2**24) as connection:
            client = Client(connection)
            client.wait_for("status", phase="ready")
            accepted = client.say("go")
            told = client.wait_for("finished", message_id=accepted["reply_id"])
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == EXIT_HUNG
    assert errors.splitlines()[-1].startswith("ondol: The model has computed at one step for more than 1 s")
    assert errors.count("at one step") == 1
    assert "Traceback" not in errors
    with closing(Database.open(folder / "data")) as database:
        reply = Conversations(database).message(accepted["reply_id"])
    assert reply.status == "interrupted"
    assert "abcdefghij" * 20 != reply.text != ""
    assert ("abcdefghij" * 20).startswith(reply.text)
    assert reply.text in told["html"]
    return accepted["conversation_id"]


@pytest.mark.row(17)
def test_a_process_whose_worker_hangs_ends_with_a_sentence_and_every_partial_reply_stored(
    tmp_path: Path, long: bool
) -> None:
    hung: list[str] = []
    for _ in range(50 if long else 5):
        hung.append(hang(tmp_path, hung))
    found = check(tmp_path / "data" / FILE_NAME)
    assert not found.damage
    assert not any(found.ids.values())
