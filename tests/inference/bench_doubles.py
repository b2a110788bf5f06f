"""Stand-ins for the bench: an engine whose model never ends, small sizes, and a scripted peer.

Plain functions, so that they can be sent to a fresh process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from inference.backends.base import Logits
from inference.bench.ours import Build
from inference.bench.peer import Peer
from inference.bench.work import Plan, Prompts, Work
from inference.config import EngineConfig
from inference.engine import Engine
from inference.models.prepared import PreparedModel
from inference.tokenization import ChatTokenizer
from inference.types import Event, GenerationRequest, ModelStatus
from tests.inference.doubles import VOCAB_SIZE, ScriptedBackend, TokenKV, engine_config, prepare_double

SMALL = Plan(
    contexts=(8, 16),
    prefills=(16,),
    history=48,
    turn=4,
    batch_prompt=8,
    window=128,
    batch_window=96,
    newcomer=64,
    gap_tokens=32,
    copy_tokens=24,
    settle_s=0,
)
PEER_SCRIPT = Path(__file__).with_name("scripted_peer.py")


class EndlessBackend(ScriptedBackend):
    """Is certain of an "a", for ever. A step takes long enough for other requests to come in meanwhile."""

    def decode(self, kvs: Sequence[TokenKV], runs: Sequence[Sequence[int]]) -> Logits:
        time.sleep(0.01)
        return super().decode(kvs, runs)

    def _next(self, kv: TokenKV) -> Logits:
        return np.eye(VOCAB_SIZE, dtype=np.float32)[ord("a")] * 100


class ObservedEngine(Engine):
    """Keeps the requests it was given."""

    requests: list[GenerationRequest]

    def submit(self, request: GenerationRequest, emit: Callable[[Event], None]) -> None:
        self.requests = [*getattr(self, "requests", []), request]
        super().submit(request, emit)


def work(kind: str, plan: Plan = SMALL, *, cached: bool = False) -> Work:
    """The first work of that kind, with or without a history."""
    prompts = Prompts(49_152)
    works = [*plan.speed(prompts), *plan.memory(prompts)]
    return next(w for _, w in works if w.kind == kind and bool(w.history) == cached)


def endless(folder: Path, *, gguf: str | None = None, window: int = 512) -> Build:
    """Builds engines whose model never ends. gguf: the name of the file that it pretends to come from."""
    return partial(_endless, folder, gguf, window)


def fatal(folder: Path) -> Build:
    """Builds engines that take their process down with them while they load."""
    return partial(_fatal, folder)


def scripted_peer(script: Path = PEER_SCRIPT) -> Peer:
    """A peer whose behaviour is decided by the name of the model file that it is given."""
    return Peer(sys.executable, "scripted", script)


def _endless(
    folder: Path, gguf: str | None, window: int, on_status: Callable[[ModelStatus], None]
) -> ObservedEngine:
    def prepare(*_: object) -> PreparedModel:
        prepared = prepare_double(folder / "model", window=window)
        return replace(prepared, gguf=folder / gguf if gguf else None)

    def load(prepared: PreparedModel, *_: object) -> EndlessBackend:
        return EndlessBackend(ChatTokenizer.load(prepared), str, window=window)

    config = engine_config(folder, max_sequences=4, max_waiting=8)
    return ObservedEngine(config, prepare, load, on_status)


def _fatal(folder: Path, on_status: Callable[[ModelStatus], None]) -> Engine:
    def prepare(config: EngineConfig, *_: object) -> PreparedModel:
        os._exit(9)

    def load(*_: object) -> EndlessBackend:
        raise AssertionError("nothing was prepared")

    return Engine(engine_config(folder), prepare, load, on_status)
