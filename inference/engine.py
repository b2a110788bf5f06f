"""The way to the model for every other thread: it loads, takes requests, stops them, and ends in order.

The life of a request:
1. `submit` puts a `Sequence` into the waiting room (any thread); it is told its position.
2. The worker takes it when a place is free, and copies the longest cached prefix into its KV cache.
3. Prefill, one chunk at a time; stop flags are read between chunks.
4. Decode, one step for all running sequences; stop flags are read between steps.
5. At the end its KV is copied to the prefix cache, its memory released, and `Finished` emitted.

One thread does all of this since CUDA state is bound to a thread and torch's CPU pool is best driven from
one. A step that raises ends its own requests. Where the thread itself dies, what it had begun ends too, and a
new thread loads the model and serves whoever waits, once; after that a person has to ask for it. A step that
hangs cannot be ended: `on_hang` decides what becomes of the process.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

from inference.config import EngineConfig
from inference.errors import EngineStopped
from inference.memory import MemoryPlan
from inference.model_loader import LoadBackend, ModelLoader, Prepare, Tokenizing, why_not_loaded
from inference.prefix_cache import PrefixCache
from inference.prefix_keeper import PrefixKeeper
from inference.requests import OpenRequests
from inference.scheduler import Place, WaitingRoom
from inference.scoring import ScoreEvent, ScoreRequest, ScoringRoom
from inference.sequence import Sequence
from inference.shared_prefixes import SharedPrefixes
from inference.tally import EngineSnapshot, Tally
from inference.types import (
    Event,
    FinishReason,
    GenerationRequest,
    ModelDescription,
    ModelPhase,
    ModelStatus,
    WorkerState,
)
from inference.watchdog import Watchdog
from inference.worker import Worker

logger = logging.getLogger(__name__)

LOADING_S = 0.5


class Engine:
    """Takes requests from any thread and runs them on one of its own."""

    def __init__(
        self,
        config: EngineConfig,
        prepare: Prepare,
        load_backend: LoadBackend,
        on_status: Callable[[ModelStatus], None] = lambda status: None,
        on_hang: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`on_hang` is called on a thread of its own with what has happened, instead of `on_status`; then all
        requests end.
        """
        self.config = config
        self.status = ModelStatus(ModelPhase.WAITING, "The model is about to be loaded.")
        self.tokenizing: Tokenizing | None = None
        self.description: ModelDescription | None = None
        self.plan: MemoryPlan | None = None
        self._loader = ModelLoader(config, prepare, load_backend)
        self._on_status = on_status
        self._on_hang = on_hang
        self._waiting = WaitingRoom(config.max_waiting, config.max_sequences)
        self._waiting.pause()
        self._tally = Tally()
        self._requests = OpenRequests(self._waiting, self._tally.ended)
        self._cache = PrefixCache(config.prefix_cache_bytes)
        self._keeper = PrefixKeeper(self._cache, config.prefix_cache_dir)
        self._shared = SharedPrefixes(self._cache, self._waiting.wake)
        self._scoring = ScoringRoom(self._waiting.wake)
        self._stopping = threading.Event()
        self._may_begin = threading.Event()
        self._retry = threading.Event()
        self._hung = False
        self._restarted = False  # since a person last asked for the model
        self._died = ""  # what the status says while a new worker loads
        self._thread = self._new_thread()
        self._changing_thread = threading.Lock()

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
        if self.status.phase is not ModelPhase.FAILED or self._hung:
            return False
        self._retry.set()
        return True

    @property
    def window(self) -> int:
        """Tokens that one chat may have: what the model takes, or less where memory holds less, once that
        is known; 0 before the tokenizer is there.
        """
        if self.plan is not None:
            return self.plan.window
        return self.tokenizing.model.context_window if self.tokenizing is not None else 0

    def reserve(self, person: str = "") -> Place:
        """Keep a place in the queue for the request of this person that `submit` is given next: what is done
        in between, such as storing it, is then not in vain. Raises `EngineBusy` or `EngineStopped`.
        """
        return self._waiting.reserve(person)

    def submit(
        self, request: GenerationRequest, emit: Callable[[Event], None], place: Place | None = None
    ) -> None:
        """Queue a request; its events go to `emit`, on the worker thread or the caller's.

        Raises `EngineBusy` (not with a reserved place), or `EngineStopped` (also without a tokenizer).
        """
        if self.tokenizing is None:
            raise EngineStopped("The model's tokenizer is not loaded yet.")
        self._requests.submit(Sequence(request, emit, self.tokenizing.tokenizer.decode), place)

    def abort(self, request_id: str) -> None:
        """Ask for a request to end: at once while it waits, else within one prefill chunk or one token."""
        self._requests.abort(request_id, at_once=self._hung)

    def score(self, request: ScoreRequest, emit: Callable[[ScoreEvent], None]) -> None:
        """Queue a reply that is to be scored; its events go to `emit`, on the worker thread or whichever ends
        it. Raises `EngineBusy`, or `EngineStopped` (also while the model is not ready).
        """
        if self.status.phase is not ModelPhase.READY:
            raise EngineStopped("The model is not loaded yet.")
        self._scoring.put(request, emit)

    def abort_score(self, request_id: str) -> None:
        """Ask for a scoring to end, within one chunk."""
        self._scoring.abort(request_id)

    def cached_tokens(self, token_ids: tuple[int, ...], reader: str | None = None) -> int:
        """How many leading tokens of a prompt the prefix cache holds now for a reader
        (`inference.ownership`).
        """
        return self._cache.peek(token_ids, reader)

    def share(self, system_prompts: Iterable[str]) -> None:
        """Compute ahead, while nobody waits, what chats with these system prompts begin with, and keep it: as
        much as half of the prefix cache holds, the first ones first. What was shared before and is not any
        more is forgotten.
        """
        self._shared.replace(system_prompts)

    def forget(self, conversation: str, keep: Iterable[tuple[int, ...]] = ()) -> None:
        """Remove from memory and disk what only this conversation computed, except for the prompts `keep`. A
        reply that is still running keeps its KV when it ends: forget it again then. Waits for the disk.
        """
        self._keeper.forget(conversation, tuple(keep))

    def stored_conversations(self) -> set[str]:
        """The conversations of which something is kept on disk. Waits for the disk."""
        return self._keeper.conversations()

    def snapshot(self) -> EngineSnapshot:
        """What the engine does and holds, as of the last step. Waits for nothing."""
        return EngineSnapshot(
            phase=self.status.phase,
            model=self.description,
            plan=self.plan,
            running=self._tally.running,
            waiting=len(self._waiting),
            prefix_cache_bytes=self._cache.nbytes,
            prefix_cache_capacity=self._cache.capacity_bytes,
            evicted_blocks=self._cache.evicted_blocks,
            counts=self._tally.counts,
            ended=self._tally.ended_counts,
        )

    @property
    def worker_state(self) -> WorkerState:
        """How the worker thread is."""
        if self._hung:
            return WorkerState.HUNG
        if self._died:
            return WorkerState.RESTARTING
        return WorkerState.ALIVE if self._thread.is_alive() else WorkerState.ENDED

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End all replies (what they have is kept by whoever listens) and join. False if the worker did not
        end in time; its replies have ended all the same.
        """
        with self._changing_thread:
            self._stopping.set()
        self._may_begin.set()
        self._retry.set()
        self._requests.stop()
        if self._thread.is_alive():
            # Nothing is lost by leaving a model half loaded, and an import cannot be interrupted.
            self._thread.join(
                timeout_s if self.status.phase is ModelPhase.READY else min(timeout_s, LOADING_S)
            )
        self._requests.close_all(FinishReason.ABORT)
        self._scoring.end_all(close=True)
        return not self._thread.is_alive()

    # On the watchdog's thread

    def _hang(self) -> None:
        if self._stopping.is_set():
            return
        self._hung = True
        sentence = (
            f"The model has computed at one step for more than {self.config.step_limit_s:g} s and cannot be "
            "interrupted."
        )
        self.status = ModelStatus(ModelPhase.FAILED, sentence)
        logger.error("the worker hangs with %s", ", ".join(self._requests.begun_ids()) or "nothing begun")
        self._on_hang(sentence)
        self._tally.clear()
        self._requests.close_all(FinishReason.ERROR, sentence)
        self._scoring.end_all(sentence, close=True)

    # On the worker thread

    def _new_thread(self, death: str = "") -> threading.Thread:
        return threading.Thread(target=self._work, args=(death,), name="ondol-worker", daemon=True)

    def _work(self, death: str) -> None:
        """One worker's life. `death` is what the last one died of, when none may follow it by itself."""
        self._may_begin.wait(self._delay_s)
        self._may_begin.set()  # a later worker need not wait
        if death:
            self._fail(death)
        worker: Worker | None = None
        while worker is None and not self._stopping.is_set():
            worker = self._load()
        if worker is None:
            return
        death = self._serve(worker)
        if death:
            del worker
            self._follow(death)

    def _serve(self, worker: Worker) -> str:
        """Serve until stopped; else what the worker died of."""
        death = ""
        watchdog = Watchdog(worker.pulse, self.config.step_limit_s, self._hang)
        watchdog.start()
        try:
            worker.serve(self._stopping)
            self._keeper.save_rest()
        except BaseException as error:
            logger.exception(
                "the worker died with %s", ", ".join(self._requests.begun_ids()) or "nothing begun"
            )
            death = f"{type(error).__name__}: {error}"
        # Now that the exception is gone, and the tensors with it that its frames held.
        watchdog.stop()
        self._tally.clear()
        self._cache.clear()
        with contextlib.suppress(Exception):
            worker.backend.close()
        return death

    def _follow(self, death: str) -> None:
        """End what was being written, and let a new thread load the model, or wait for a person's word."""
        self._waiting.pause()
        self._requests.close_begun(f"The model broke off while it wrote this ({death}).")
        self._scoring.end_all(f"The model broke off while it computed this ({death}).")
        gc.collect()  # the old model must be gone before the new one is loaded
        final, self._restarted = self._restarted, True
        with self._changing_thread:
            if self._stopping.is_set():
                return
            if not final:
                self._died = f"The model broke off ({death}) and is being loaded again."
                self._report(ModelStatus(ModelPhase.LOADING))
            self._thread = self._new_thread(f"The model broke off twice ({death})." if final else "")
            self._thread.start()

    def _load(self) -> Worker | None:
        """The model, ready to serve; None after a failure, once somebody asked to try again."""
        try:
            self.tokenizing = self._loader.tokenizing(self._report, self._stopping)
            worker, plan = self._loader.worker(
                self.tokenizing,
                self._report,
                self._waiting,
                self._cache,
                self._keeper,
                self._shared,
                self._scoring,
                self._requests.close,
                self._tally,
            )
        except BaseException as error:  # even one that is meant to end a thread
            self._fail(why_not_loaded(error))
            return None
        self.description, self.plan, self._died = worker.backend.description, plan, ""
        self._waiting.resume(plan.max_sequences)
        self._report(ModelStatus(ModelPhase.READY, f"{self.description.name} is ready"))
        return worker

    def _fail(self, message: str) -> None:
        """Tell what went wrong, and sleep until somebody asks to try again."""
        self._died = ""
        self._requests.close_waiting(message)
        self._retry.clear()
        if not self._stopping.is_set():
            self._report(ModelStatus(ModelPhase.FAILED, message))
            self._retry.wait()
            self._restarted = False

    def _report(self, status: ModelStatus) -> None:
        if self._died and not status.phase.is_settled:
            status = replace(status, message=self._died)
        self.status = status
        self._on_status(status)
