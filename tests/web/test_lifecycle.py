"""Starting, failing, ending and starting again."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from inference.errors import ModelUnavailable
from inference.models.prepared import PreparedModel
from tests.inference.doubles import prepare_double
from tests.web.serving import Served
from web.server import listen

Serve = Callable[..., Served]


def test_everything_said_is_there_after_a_restart(serve: Serve) -> None:
    served = serve()
    accepted, _ = served.ready_client().say_and_wait("remember this")
    served.close()
    again = serve()
    assert "remember this" in again.get("/").text
    assert again.get(f"/c/{accepted['conversation_id']}").text.count("remember this") >= 2


def test_ending_the_server_keeps_a_partial_reply_as_interrupted(serve: Serve) -> None:
    pace = threading.Semaphore(60)
    served = serve(lambda prompt: "abcdefghij" * 20, pace=pace)
    client = served.ready_client()
    accepted = client.say("go")
    client.wait_for("delta")
    ending = threading.Thread(target=served.close)
    ending.start()
    ending.join()
    page = serve().get(f"/c/{accepted['conversation_id']}").text
    assert "abcdef" in page
    assert "Interrupted" in page


def test_a_frame_does_not_wait_until_the_one_before_was_acknowledged() -> None:
    async def without_delay() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            found.set_result(option)
            writer.close()

        listener = listen("127.0.0.1", 0)
        async with await asyncio.start_server(accepted, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            writer.close()
            return await found

    assert asyncio.run(without_delay()) == 1


def test_a_model_that_cannot_be_had_is_told_and_tried_again_on_request(serve: Serve, tmp_path: Path) -> None:
    failures = [ModelUnavailable("The network is away. Connect and try again.")]

    def prepare(*_: object) -> PreparedModel:
        if failures:
            raise failures.pop()
        return prepare_double(tmp_path / "model")

    served = serve(prepare=prepare)
    client = served.client()
    status = client.wait_for("status", phase="failed")
    assert status["message"] == "The network is away. Connect and try again."
    assert status["can_send"] is False
    assert "The network is away" in served.get("/").text
    assert served.get("/health").status_code == 503
    refused = client.wait_for("error", ref=client.send("send", text="hello"))
    assert refused["code"] == "model_failed"
    client.send("retry_model")
    client.wait_for("status", phase="ready")
    assert served.get("/health").json() == {"worker": "alive", "model": "ready"}
    client.say_and_wait("hello")


def test_before_the_tokenizer_is_there_a_message_is_refused_and_says_why(serve: Serve) -> None:
    gate = threading.Event()

    def prepare(*_: object) -> PreparedModel:
        gate.wait(20)
        raise ModelUnavailable("Too late.")

    served = serve(prepare=prepare)
    client = served.client()
    assert client.wait_for("status")["can_send"] is False
    error = client.wait_for("error", ref=client.send("send", text="hello"))
    gate.set()
    assert error["code"] == "model_loading"
    assert served.get("/").status_code == 200


def test_what_is_small_is_sent_at_once() -> None:
    """Otherwise the second of two small pieces waits for the client's word that the first has come: 40 ms."""

    async def no_delay() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted: socket.socket = writer.get_extra_info("socket")
            found.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = listen("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            writer.close()
            return await found

    assert asyncio.run(no_delay()) == 1
