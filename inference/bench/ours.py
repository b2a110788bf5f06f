"""Ondol's own engine under test, through the same door as everybody: `submit` and its events."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from inference.bench.work import Outcome, Point, Run, Work
from inference.engine import Engine
from inference.errors import BenchFailed, ModelUnavailable
from inference.types import (
    Delta,
    Event,
    Finished,
    FinishReason,
    GenerationRequest,
    ModelPhase,
    ModelStatus,
    SamplingParams,
)

Build: TypeAlias = Callable[[Callable[[ModelStatus], None]], Engine]
"""Makes an engine that reports to the function given. A plain function or partial: it goes to a process."""

STATUS_FILE = Path("/proc/self/status")


@contextmanager
def loaded(build: Build, on_status: Callable[[ModelStatus], None]) -> Iterator[Engine]:
    """An engine whose model is ready; it ends with the block. Raises `ModelUnavailable`."""
    settled = threading.Event()

    def watch(status: ModelStatus) -> None:
        on_status(status)
        if status.phase.is_settled:
            settled.set()

    engine = build(watch)
    engine.start()
    try:
        settled.wait()
        if engine.status.phase is ModelPhase.FAILED:
            raise ModelUnavailable(engine.status.message)
        yield engine
    finally:
        engine.stop()


class EngineUnderTest:
    """Carries out work on an engine and notes when tokens come, on the worker thread, as they come."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, work: Work) -> Outcome:
        if work.history:
            self._submit(work.history, 1, drafts=False).wait()
        replies: list[_Reply] = []
        for number, prompt in enumerate(work.prompts, start=1):
            if work.kind == "gap" and number == len(work.prompts):
                for reply in replies:
                    reply.wait_for(work.new_tokens // 4)
            replies.append(self._submit(prompt, work.new_tokens, drafts=work.drafts))
        return Outcome(tuple(reply.wait() for reply in replies), peak_memory_mb())

    def _submit(self, prompt: tuple[int, ...], new_tokens: int, *, drafts: bool) -> _Reply:
        reply, name = _Reply(), uuid.uuid4().hex
        request = GenerationRequest(name, prompt, _params(new_tokens), drafts=drafts)
        self._engine.submit(request, reply.put)
        return reply


class _Reply:
    """One request's events."""

    def __init__(self) -> None:
        self._submitted_s = time.perf_counter()
        self._points: list[Point] = []
        self._tokens = 0
        self._finished: Finished | None = None
        self._over = threading.Event()
        self._progress = threading.Condition()

    def put(self, event: Event) -> None:
        if isinstance(event, Delta) and event.token_ids:
            self._tokens += len(event.token_ids)
            self._points.append(Point(time.perf_counter(), self._tokens))
        elif isinstance(event, Finished):
            self._finished = event
            self._over.set()
        with self._progress:
            self._progress.notify_all()

    def wait_for(self, tokens: int) -> None:
        """Wait until so many tokens are there, or no more will come."""
        with self._progress:
            self._progress.wait_for(lambda: self._tokens >= tokens or self._over.is_set())

    def wait(self) -> Run:
        self._over.wait()
        finished = self._finished
        if finished is None or finished.reason in (FinishReason.ERROR, FinishReason.ABORT):
            raise BenchFailed(
                (finished and finished.error) or "The engine stopped in the middle of the bench."
            )
        timings, cached = finished.timings, finished.usage.cached_tokens
        return Run(self._submitted_s, tuple(self._points), timings.prefill_tok_s, cached)


def _params(new_tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0, seed=0, max_tokens=new_tokens, ignore_eos=True)


def in_fresh_process(build: Build, work: Work) -> Outcome:
    """Load the model in a process of its own and do one work there, so that its peak memory is that work's.

    Raises `BenchFailed` or `ModelUnavailable`.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_load_and_run, build, work).result()
        except BrokenProcessPool:
            raise BenchFailed(
                "The process whose memory was measured was killed; there may be too little memory."
            ) from None


def _load_and_run(build: Build, work: Work) -> Outcome:
    with loaded(build, lambda status: None) as engine:
        return EngineUnderTest(engine)(work)


def peak_memory_mb() -> int:
    """Peak resident memory of this process, in MiB.

    On Linux `ru_maxrss` goes on from the process that started this one; VmHWM does not.
    """
    if STATUS_FILE.exists():
        for line in STATUS_FILE.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1024 * 1024 if sys.platform == "darwin" else 1024)
