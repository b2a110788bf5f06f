"""`ondol bench`: what this machine makes of the model, beside a peer when one is given."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console

from inference.bench.ours import Build, EngineUnderTest, in_fresh_process, loaded
from inference.bench.peer import Peer, PeerUnderTest, in_fresh_peer
from inference.bench.rounds import Figures, measure
from inference.bench.work import Measure, Plan, Prompts
from inference.engine import Engine
from inference.errors import BenchFailed
from inference.memory import MemoryPlan
from inference.models.locate import check
from inference.types import ChatMessage, ModelDescription
from web.app import build_engine
from web.bench_report import OURS, BenchProgress, Result, as_object, as_table, heading
from web.settings import Settings
from web.terminal import StatusPrinter

PASSAGE = """\
The floor of the old house was warm in the morning. Under the stone slabs ran the smoke of the kitchen fire,
from one end of the house to the other, and it left its heat behind on the way. Grandmother put the bowl of
whoever came home late under a folded blanket, at the warmest spot of the room, and there it kept until night.
"""


def run_bench(
    settings: Settings,
    *,
    rounds: int,
    peer: Peer | None,
    as_json: bool,
    plan: Plan | None = None,
    build: Build | None = None,
) -> None:
    """Measure, and print a table or one JSON object; progress goes to standard error.

    Raises `InferenceError`. The last two arguments are for doubles.
    """
    if peer is not None and shutil.which(peer.python) is None:
        raise BenchFailed(f"There is no Python at {peer.python}; --peer-python names one with xllamacpp.")
    if build is None:
        check(settings.model)
        build = partial(build_engine, settings)
    plan = plan or Plan()
    steps = plan.steps(rounds) * (1 if peer is None else 2) + plan.own_steps(rounds)
    progress = BenchProgress(rounds, steps)
    with progress:
        result = _measure(build, plan, rounds, peer, progress)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(as_object(result)), indent=2).decode())
    else:
        console = Console()
        console.print(heading(result), markup=False, highlight=False, soft_wrap=True)
        console.print(as_table(result))


def _measure(build: Build, plan: Plan, rounds: int, peer: Peer | None, progress: BenchProgress) -> Result:
    """Speed on engines that stay loaded, then memory in fresh processes, when those are gone."""
    printer = StatusPrinter()
    with ExitStack() as stack:
        stack.callback(printer.close)
        engine = stack.enter_context(loaded(build, printer))
        description, memory_plan, gguf = _described(engine, plan, peer)
        engines: dict[str, Measure] = {OURS: EngineUnderTest(engine)}
        memories: dict[str, Measure] = {OURS: partial(in_fresh_process, build)}
        peer_engine = None
        if peer is not None and gguf is not None:
            process = stack.enter_context(PeerUnderTest(peer, gguf, description.threads))
            peer_engine, engines[peer.name] = process.engine, process
            memories[peer.name] = partial(in_fresh_peer, peer, gguf, description.threads)
        prompts = Prompts(description.vocab_size)
        figures = _speed(plan, prompts, engines, rounds, progress)
        passage = _passage(engine)
        own_works = partial(plan.own, prompts, passage)
        figures[OURS] |= measure(
            own_works, {OURS: engines[OURS]}, rounds=rounds, on_step=progress.step, digits=2
        )[OURS]
    peaks = measure(lambda: plan.memory(prompts), memories, rounds=1, on_step=progress.step)
    own, *others = (figures[name] | peaks[name] for name in engines)
    return Result(description, memory_plan, rounds, own, peer_engine, others[0] if others else None)


def _described(
    engine: Engine, plan: Plan, peer: Peer | None
) -> tuple[ModelDescription, MemoryPlan, Path | None]:
    """What runs, what fits, and its GGUF file if it has one. Refuses what cannot be measured."""
    assert engine.description is not None
    assert engine.plan is not None
    assert engine.tokenizing is not None
    description, gguf = engine.description, engine.tokenizing.model.gguf
    if description.context_window < plan.window:
        raise BenchFailed(
            f"{description.name} has a context window of {description.context_window:,} tokens; the bench "
            f"needs {plan.window:,}."
        )
    if peer is not None and gguf is None:
        raise BenchFailed(
            f"{peer.name} reads .gguf files only and {description.name} did not come as one: give a .gguf "
            "file as the model, or leave --peer out."
        )
    return description, engine.plan, gguf


def _passage(engine: Engine) -> tuple[int, ...]:
    """A question whose answer repeats much of it, as a summary or a correction would."""
    assert engine.tokenizing is not None
    question = ChatMessage("user", f"Write this text once more, word for word:\n\n{PASSAGE}")
    return engine.tokenizing.tokenizer.encode_chat([question]).ids


def _speed(
    plan: Plan, prompts: Prompts, engines: dict[str, Measure], rounds: int, progress: BenchProgress
) -> dict[str, Figures]:
    measure(lambda: plan.warm_up(prompts), engines, rounds=1, on_step=progress.step)
    return measure(
        lambda: plan.speed(prompts),
        engines,
        rounds=rounds,
        on_step=progress.step,
        settle_s=plan.settle_s,
    )
