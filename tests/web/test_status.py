"""The page `/status`: what runs, what it costs, and for whom."""

from __future__ import annotations

import html
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from inference.memory import MemoryPlan
from inference.tally import EngineSnapshot, RunningReply
from inference.types import ModelPhase
from tests.inference.doubles import ScriptedBackend, chat_tokenizer
from tests.web.client import WAIT_S
from tests.web.serving import Served
from web.status_view import memory_view

Serve = Callable[..., Served]
MIB = 2**20


def now(served: Served, wanted: str) -> str:
    """The changing part, once it shows something: a pattern."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        text = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", served.get("/status/now").text)))
        if re.search(wanted, text):
            return text
    raise AssertionError(f"{wanted!r} is not in {text}")


def test_a_running_reply_is_shown_with_its_chat_and_then_counted(serve: Serve) -> None:
    pace = threading.Semaphore(12)
    served = serve(lambda prompt: "abcdefghij" * 4, pace=pace, engine={"max_sequences": 1})
    client, other = served.ready_client(), served.ready_client()
    client.say("A trip to Gangneung")
    other.say("Another question")
    text = now(served, r"\b1 running · 1 waiting")
    assert "A trip to Gangneung" in text
    assert re.search(r"\d+ tok ·", text) or "reading" in text
    assert "promised to replies that run" in text
    pace.release(1_000)
    client.wait_for("finished")
    other.wait_for("finished")
    assert "Gangneung" not in now(served, r"\b0 running · 0 waiting")
    now(served, r"today \d+ % \d+ of \d+ tokens in all \d+ %")


def test_the_page_answers_before_the_model_is_there_and_in_korean(serve: Serve) -> None:
    gate = threading.Event()

    def prepare(*_: object) -> None:
        gate.wait(WAIT_S)
        raise SystemExit

    served = serve(prepare=prepare)
    page = served.get("/status", **{"Accept-Language": "ko"})
    tokens = served.get("/tokens")
    learn = served.get("/learn")
    gate.set()
    assert page.status_code == tokens.status_code == learn.status_code == 200
    assert "모델을 불러오면 알 수 있어요" in page.text
    assert "No tokenizer is here yet" in tokens.text
    assert "Not measured yet" in learn.text


def test_on_a_shared_server_these_pages_need_a_session(serve: Serve) -> None:
    served = serve(lan=True)
    for path in ("/status", "/status/now", "/tokens", "/learn"):
        assert served.get(path).status_code == 401
        assert served.get(path, Cookie=served.guest()).status_code == 200


def test_the_memory_s_parts_are_those_of_the_plan() -> None:
    double = ScriptedBackend(chat_tokenizer(), str).description
    model = replace(
        double, device="cpu", weight_bytes=300 * MIB, kv_bytes_per_token=MIB, free_bytes=1000 * MIB
    )
    plan = MemoryPlan(kv_tokens=400, window=400, max_sequences=2, prefix_cache_bytes=200 * MIB)
    reply = RunningReply("r", "c", 100, 40, 30, 0, longest=150, decode_tok_s=None)
    seen = EngineSnapshot(ModelPhase.READY, model, plan, (reply,), 0, 50 * MIB, 200 * MIB)
    memory = memory_view(seen, model, plan)
    assert (memory.kv_used, memory.kv_promised, memory.kv_capacity) == (40 * MIB, 150 * MIB, 400 * MIB)
    assert memory.kept_free == (1000 - 400 - 200) * MIB
    assert memory.working == max(0, memory.process - (300 + 40 + 50) * MIB)
    assert [(part.name, round(part.value / MIB)) for part in memory.bar] == [
        ("weights", 300),
        ("kv", 40),
        ("free", 360),
        ("cache", 50),
        ("free", 150),
        ("kept", 400),
    ]
    assert memory_view(seen, replace(model, device="cuda:0"), plan).working is None
