"""What the log says: of every fault one record with the id that the person was told, and nothing that anybody
wrote, as long as nobody asks for more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.inference.doubles import CHATML, NUL
from tests.web.client import Client
from tests.web.conftest import echo
from tests.web.serving import Served
from web.logs import FORMAT, DiscreetFormatter

Serve = Callable[..., Served]

SAID = "Marzipankartoffeln"
"""In everything that anybody writes here, the model included."""

PICKY = (
    "{% for message in messages %}{% if 'picky' in message['content'] %}"
    "{{ raise_exception(message['content']) }}{% endif %}{% endfor %}" + CHATML
)


NO_NUMBERS = "no numbers"


class Dies(BaseException):
    """What no step catches."""


async def breaks(request: Request) -> Response:
    raise ValueError(f"{SAID} cannot be that")


def answer(prompt: str) -> str:
    """What was said; where that is asked for, then a step whose logits are no numbers."""
    return echo(prompt).replace(NO_NUMBERS, NUL)


def about(served: Served, ref: str) -> list[str]:
    """The records with this id."""
    return [record for record in served.leaks.log if ref in record]


def failed(client: Client, served: Served, error: BaseException) -> dict[str, Any]:
    """The end of a reply whose next step raises this."""
    served.backends[-1].fail_with = error
    return client.say_and_wait(f"{SAID}, again")[1]


@pytest.mark.row(33)
def test_of_every_fault_there_is_one_record_with_its_id_and_nothing_that_was_said(serve: Serve) -> None:
    served = serve(answer, template=PICKY, routes=[Route("/breaks", breaks, methods=["GET", "POST"])])
    client = served.ready_client()
    accepted, _ = client.say_and_wait(SAID)
    assert served.leaks.log == []
    faults = [
        failed(client, served, ValueError(f"{SAID} is no number")),
        failed(client, served, KeyError(SAID)),
        failed(client, served, MemoryError()),
        client.say_and_wait(f"{SAID}, {NO_NUMBERS}")[1],
    ]
    assert {fault["finish_reason"] for fault in faults} == {"error"}
    ids = [fault["message_id"] for fault in faults]
    ids.append(client.send("send", text=f"{SAID}, picky"))
    assert client.wait_for("error", ref=ids[-1])["code"] == "model_failed"
    ids.append(copied_badly(client, served))
    ids.append(read_badly(client, served, accepted))
    page = served.get("/breaks")
    assert page.status_code == 500
    assert SAID not in page.text
    ids.append(served.leaks.log[-1].partition(" failed: ")[0].rpartition(" ")[2])
    assert ids[-1] in page.text
    ids.append(served.post("/breaks", {}).json()["fault"])
    ids.append(failed(client, served, Dies(SAID[:4]))["message_id"])
    served.ready_client()
    records = {fault: about(served, fault) for fault in ids}
    assert {fault: len(found) for fault, found in records.items()} == dict.fromkeys(ids, 1)
    assert len(served.leaks.log) == len(ids)
    assert [record for record in served.leaks.log if SAID in record] == []


def copied_badly(client: Client, served: Served) -> str:
    """A reply whose keys and values cannot be kept; its id."""
    served.backends[-1].fail_copies_with = ValueError(SAID)
    finished = client.say_and_wait(f"{SAID} once more")[1]
    assert finished["finish_reason"] == "stop"
    return str(finished["message_id"])


def read_badly(client: Client, served: Served, accepted: dict[str, Any]) -> str:
    """A command that meets a row which nobody expected; its id."""
    with served.database.write() as session:
        session.execute(text("UPDATE messages SET context = :said"), {"said": f"{SAID}{{"})
    places = {"conversation_id": accepted["conversation_id"], "message_id": accepted["reply_id"]}
    ref = client.send("regenerate", **places)
    assert client.wait_for("error", ref=ref)["code"] == "internal"
    return ref


@pytest.mark.row(33)
def test_a_database_that_fails_is_in_the_log_with_the_id_of_each_command_and_reply(serve: Serve) -> None:
    pace = threading.Semaphore(80)
    served = serve(lambda prompt: SAID * 20, pace=pace, window=4_096)
    client = served.ready_client()
    reply = client.say(SAID)["reply_id"]
    client.wait_for("delta", message_id=reply)
    served.database.close()
    ref = client.send("send", text=SAID)
    error = client.wait_for("error", ref=ref)
    assert error["code"] == "storage"
    assert error["message"] == "ondol.sqlite3 has been closed."
    pace.release(1_000)
    assert client.wait_for("error", ref=reply)["code"] == "storage"
    page = served.get("/c/whatever")
    assert (page.status_code, "ondol.sqlite3 has been closed" in page.text) == (503, True)
    fault = served.leaks.log[-1].partition(" failed: ")[0].rpartition(" ")[2]
    assert fault in page.text
    (posted,) = served.leaks.log[-1:]
    assert "ondol.sqlite3 has been closed." in posted
    stored = [record for record in about(served, reply) if "could not be stored" in record]
    assert [len(about(served, ref)), len(stored), len(about(served, fault))] == [1, 1, 1]
    assert [record for record in served.leaks.log if SAID in record] == []


@pytest.mark.row(33)
def test_what_a_client_does_wrong_is_told_to_that_client_alone(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    for wrong in ({"text": SAID, "unknown": SAID}, {"text": SAID, "conversation_id": "absent"}, {"text": 1}):
        client.wait_for("error", ref=client.send("send", **wrong))
    client.connection.send(SAID)
    client.wait_for("error", code="bad_frame")
    assert client.wait_for("error", ref=client.send("send", text=SAID * 100))["code"] == "too_long"
    served.post("/messages", {"text": SAID})
    served.post("/pair", {"code": SAID})
    served.get(f"/search?q={SAID}")
    served.get(f"/{SAID}")
    assert served.post_bytes("/api/import", SAID.encode()).status_code == 202
    assert [record for record in served.leaks.log if SAID in record] == []


def test_a_traceback_tells_where_and_what_kind_and_quotes_no_value() -> None:
    formatter = DiscreetFormatter(FORMAT)

    def written(error: BaseException) -> str:
        record = logging.LogRecord("web", logging.ERROR, "", 0, "x failed", (), (type(error), error, None))
        return formatter.format(record)

    try:
        try:
            int(SAID)
        except ValueError as error:
            raise OSError(28, "No space left on device") from error
    except OSError as error:
        said = written(error)
    assert SAID not in said
    assert said.index("int(SAID)") < said.index("ValueError\nwhich led to") < said.index("raise OSError")
    assert said.endswith("OSError: [Errno 28] No space left on device")
    error = RuntimeError("a circle")
    error.__cause__ = error
    assert written(error).endswith("x failed\nRuntimeError: a circle")
