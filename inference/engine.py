"""The way to the model for every other thread: it loads, takes requests, stops them, and ends in order.

The life of a request:
1. `submit` puts a `Sequence` into the waiting room (any thread); it is told its position.
2. The worker takes it when a place is free, and copies the longest cached prefix into its KV cache.
3. Prefill, one chunk at a time; stop flags are read between chunks.
4. Decode, one step for all running sequences; stop flags are read between steps.
5. At the end its KV is copied to the prefix cache, its memory released, and `Finished` emitted.

One thread does all of this since CUDA state is bound to a thread and torch's CPU pool is best driven from
one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from inference.backends.base import Backend
from inference.config import EngineConfig
from inference.errors import EngineStopped, InferenceError
from inference.memory import MemoryPlan
from inference.models.prepared import PreparedModel, Progress
from inference.prefix_cache import PrefixCache
from inference.prefix_keeper import PrefixKeeper
from inference.scheduler import WaitingRoom
from inference.sequence import Sequence
from inference.token_blocks import common_prefix
from inference.tokenization import ChatTokenizer
from inference.types import (
    ChatMessage,
    Event,
    FinishReason,
    GenerationRequest,
    ModelDescription,
    ModelPhase,
    ModelStatus,
)
from inference.worker import Worker

logger = logging.getLogger(__name__)

LOADING_S = 0.5

Prepare: TypeAlias = Callable[[EngineConfig, Progress, threading.Event], PreparedModel]
LoadBackend: TypeAlias = Callable[[PreparedModel, EngineConfig, Progress], Backend]


@dataclass(frozen=True, slots=True)
class Tokenizing:
    """What is known of the model before its weights are loaded: enough to fit and accept messages."""

    model: PreparedModel
    tokenizer: ChatTokenizer


class Engine:
    """Takes requests from any thread and runs them on one of its own."""

    def __init__(
        self,
        config: EngineConfig,
        prepare: Prepare,
        load_backend: LoadBackend,
        on_status: Callable[[ModelStatus], None] = lambda status: None,
    ) -> None:
        self.config = config
        self.status = ModelStatus(ModelPhase.WAITING, "The model is about to be loaded.")
        self.tokenizing: Tokenizing | None = None
        self.description: ModelDescription | None = None
        self.plan: MemoryPlan | None = None
        self._prepare = prepare
        self._load_backend = load_backend
        self._on_status = on_status
        self._waiting = WaitingRoom(config.max_waiting, config.max_sequences)
        self._open: dict[str, Sequence] = {}  # every request between submit and Finished
        self._cache = PrefixCache(config.prefix_cache_bytes)
        self._keeper = PrefixKeeper(self._cache, config.prefix_cache_dir)
        self._stopping = threading.Event()
        self._may_begin = threading.Event()
        self._retry = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ondol-worker", daemon=True)

    # From any thread

    def start(self, delay_s: float = 0.0) -> None:
        """Start the worker; it begins to load after `begin`, or `delay_s` seconds at the latest.

        Importing torch holds the interpreter for half a second and more, so a server answers first.
        """
        self._delay_s = delay_s
        self._thread.start()

    def begin(self) -> None:
        """Let the worker begin at once."""
        self._may_begin.set()

    def retry(self) -> bool:
        """Try again to load the model after it failed; False when it has not failed."""
        if self.status.phase is not ModelPhase.FAILED:
            return False
        self._retry.set()
        return True

    def submit(self, request: GenerationRequest, emit: Callable[[Event], None]) -> None:
        """Queue a request; its events go to `emit`, on the worker thread or the caller's.

        Raises `EngineBusy`, or `EngineStopped` (also while no tokenizer is there).
        """
        if self.tokenizing is None:
            raise EngineStopped("The model's tokenizer is not loaded yet.")
        sequence = Sequence(request, emit, self.tokenizing.tokenizer.decode)
        self._open[request.id] = sequence
        try:
            self._waiting.put(sequence)
        except InferenceError:
            del self._open[request.id]
            raise

    def abort(self, request_id: str) -> None:
        """Ask for a request to end: at once while it waits, else within one prefill chunk or one token."""
        sequence = self._open.get(request_id)
        if sequence is None:
            return
        sequence.ask_to_stop()
        if self._waiting.remove(request_id) is not None:
            self._close(sequence, FinishReason.ABORT)

    def cached_tokens(self, token_ids: tuple[int, ...]) -> int:
        """How many leading tokens of a prompt the prefix cache holds now."""
        return self._cache.peek(token_ids)

    def forget(self, owner: str) -> None:
        """Remove from memory and disk what only this conversation computed. A reply that is still running
        keeps its KV when it ends: forget it again then. Waits for the disk.
        """
        self._keeper.forget(owner)

    def stored_owners(self) -> set[str]:
        """The conversations of which something is kept on disk. Waits for the disk."""
        return self._keeper.owners()

    @property
    def alive(self) -> bool:
        """Whether the worker thread is running."""
        return self._thread.is_alive()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End all replies (what they have is kept by whoever listens) and join. False if it did not end in
        time.
        """
        self._stopping.set()
        self._may_begin.set()
        self._retry.set()
        for sequence in self._waiting.close():
            self._close(sequence, FinishReason.ABORT)
        for sequence in list(self._open.values()):
            sequence.ask_to_stop()
        if self._thread.is_alive():
            # Nothing is lost by leaving a model half loaded, and an import cannot be interrupted.
            self._thread.join(
                timeout_s if self.status.phase is ModelPhase.READY else min(timeout_s, LOADING_S)
            )
        return not self._thread.is_alive()

    # On the worker thread

    def _work(self) -> None:
        self._may_begin.wait(self._delay_s)
        worker: Worker | None = None
        while worker is None and not self._stopping.is_set():
            worker = self._load()
        if worker is None:
            return
        try:
            worker.serve(self._stopping)
        finally:
            self._keeper.save_rest()
            self._cache.clear()
            worker.backend.close()

    def _load(self) -> Worker | None:
        """The model, ready to serve; None after a failure, once somebody asked to try again."""
        try:
            prepared = self._prepare(self.config, self._report, self._stopping)
            self.tokenizing = Tokenizing(prepared, ChatTokenizer.load(prepared))
            self._report(ModelStatus(ModelPhase.LOADING, f"Loading {prepared.name}"))
            backend = self._load_backend(prepared, self.config, self._report)
            plan = MemoryPlan.for_model(backend.description, self.config)
            self._cache.capacity_bytes = plan.prefix_cache_bytes
            self._keeper.restore(backend, prepared)
            worker = Worker(backend, plan, self.config, self._waiting, self._cache, self._keeper, self._close)
            worker.pin(shared_prefix(self.tokenizing.tokenizer, self.config))
        except InferenceError as error:
            self._fail(str(error))
            return None
        except Exception as error:  # whatever a library raises must reach the person
            logger.exception("the model could not be loaded")
            self._fail(f"The model could not be loaded: {type(error).__name__}: {error}")
            return None
        self.description, self.plan = backend.description, plan
        self._report(ModelStatus(ModelPhase.READY, f"{prepared.name} is ready"))
        return worker

    def _fail(self, message: str) -> None:
        for sequence in self._waiting.empty():
            self._close(sequence, FinishReason.ERROR, message)
        self._retry.clear()
        if not self._stopping.is_set():
            self._report(ModelStatus(ModelPhase.FAILED, message))
            self._retry.wait()

    def _report(self, status: ModelStatus) -> None:
        self.status = status
        self._on_status(status)

    def _close(self, sequence: Sequence, reason: FinishReason, error: str | None = None) -> None:
        self._open.pop(sequence.request.id, None)
        sequence.finish(reason, error)


def shared_prefix(tokenizer: ChatTokenizer, config: EngineConfig) -> tuple[int, ...]:
    """The tokens that every conversation with the configured system prompt begins with."""
    system = [ChatMessage("system", config.system_prompt)] if config.system_prompt else []
    chats = ([*system, ChatMessage("user", text)] for text in ("a", "1"))
    one, other = (
        tokenizer.encode_chat(chat, generation_prompt=False, thinking=config.thinking).ids for chat in chats
    )
    return one[: common_prefix(one, other)]
