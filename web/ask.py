"""`ondol ask`: one question, one reply, in the terminal, through the same engine as the page."""

from __future__ import annotations

import asyncio
import secrets
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec
from rich.console import Console

from inference.context import ContextFit, fit, reserve_for
from inference.detokenizer import Decode, token_text
from inference.engine import Engine
from inference.errors import InferenceError, ModelUnavailable
from inference.model_loader import Tokenizing
from inference.models.locate import check
from inference.stream import EventStream
from inference.types import (
    MAX_SEED,
    Delta,
    Finished,
    FinishReason,
    GenerationRequest,
    ModelPhase,
    ModelStatus,
    SamplingParams,
    TokenLogprob,
)
from web.app import build_engine
from web.settings import Settings
from web.terminal import StatusPrinter

TEXT_CONTEXT = 8
"""Tokens before one that its text depends on."""


def run_ask(settings: Settings, question: str, wishes: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the reply as it is written, or one JSON object. Raises `InferenceError`.

    wishes: sampling params that replace the model's defaults.
    """
    SamplingParams(**wishes)  # out of range is told before a model is loaded
    check(settings.model)
    asyncio.run(_ask(settings, question, wishes, as_json))


async def _ask(settings: Settings, question: str, wishes: Mapping[str, Any], as_json: bool) -> None:
    loop, settled = asyncio.get_running_loop(), asyncio.Event()
    printer = StatusPrinter()

    def on_status(status: ModelStatus) -> None:
        if not (as_json and status.phase is ModelPhase.READY):
            printer(status)
        if status.phase.is_settled:
            loop.call_soon_threadsafe(settled.set)

    engine = build_engine(settings, on_status)
    engine.start()
    try:
        await settled.wait()
        if engine.tokenizing is None or engine.status.phase is ModelPhase.FAILED:
            raise ModelUnavailable(engine.status.message)
        params = _params(engine.tokenizing, engine.window, wishes)
        fitted = fit(
            engine.tokenizing.tokenizer,
            settings.system_prompt,
            (),
            question,
            window=engine.window,
            max_tokens=params.max_tokens,
            thinking=settings.thinking,
        )
        reply, finished = await _generate(engine, fitted, params, show=not as_json)
        if as_json:
            report = _report(engine, reply, finished, fitted, params)
            if params.logprobs:
                report["logprobs"] = _logprobs(engine.tokenizing.tokenizer.decode, reply.logprobs)
            print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        if finished.reason is FinishReason.ERROR:
            raise InferenceError(finished.error or "The computation failed.")
    finally:
        printer.close()
        await asyncio.to_thread(engine.stop)


def _params(tokenizing: Tokenizing, window: int, wishes: Mapping[str, Any]) -> SamplingParams:
    wished = replace(tokenizing.model.defaults, **wishes)
    seed = wished.seed if wished.seed is not None else secrets.randbelow(MAX_SEED)
    limit = reserve_for(window, wished.max_tokens)
    return replace(wished, seed=seed, max_tokens=limit)


async def _generate(
    engine: Engine, fitted: ContextFit, params: SamplingParams, *, show: bool
) -> tuple[Delta, Finished]:
    """The whole reply as one delta, and its end."""
    stream = EventStream(asyncio.get_running_loop())
    request = GenerationRequest(uuid.uuid4().hex, fitted.prompt_ids, params, reasoning=fitted.reasoning)
    engine.submit(request, stream.put)
    reply, aside = Delta("", ()), Console(stderr=True, highlight=False, style="dim")
    async for event in stream:
        if isinstance(event, Delta):
            reply = reply.then(event)
            if show and event.reasoning and aside.is_terminal:
                aside.print(event.reasoning, end="", markup=False, soft_wrap=True)
            if show and event.text:
                if reply.text == event.text and reply.reasoning and aside.is_terminal:
                    aside.print("\n")
                print(event.text, end="", flush=True)
        elif isinstance(event, Finished):
            if show:
                print(flush=True)
                print(_in_words(event), file=sys.stderr)
            return reply, event
    raise RuntimeError("the engine's events ended without a last one")


def _in_words(finished: Finished) -> str:
    usage, timings = finished.usage, finished.timings
    rate = f" · {timings.decode_tok_s:.1f} tok/s" if timings.decode_tok_s else ""
    first = f" · first after {timings.ttft_s:.2f} s" if timings.ttft_s is not None else ""
    reused = f" · reused {usage.cached_tokens:,} of {usage.prompt_tokens:,}"
    return f"{usage.completion_tokens:,} tokens{first}{rate}{reused}"


def _report(
    engine: Engine, reply: Delta, finished: Finished, fitted: ContextFit, params: SamplingParams
) -> dict[str, Any]:
    description = engine.description
    context = {
        name: getattr(fitted, name)
        for name in ("window", "system", "pinned", "history", "question", "reserve", "system_folded")
    }
    return {
        "reply": reply.text,
        "reasoning": reply.reasoning or None,
        "finish_reason": finished.reason,
        "usage": asdict(finished.usage),
        "timings": asdict(finished.timings),
        "context": context,
        "params": asdict(params),
        "model": description.name if description else engine.config.model,
        "quantization": description.quantization if description else None,
        "backend": description.backend if description else None,
        "kernels": (description.kernels or None) if description else None,
        "threads": description.threads if description else None,
        "compute_dtype": description.compute_dtype if description else None,
        "memory_plan": asdict(engine.plan) if engine.plan else None,
    }


def _logprobs(decode: Decode, logprobs: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
    """One entry a token, with the text that it and each alternative adds to the reply."""
    ids = [token.token_id for token in logprobs]

    def entry(place: int, token_id: int, logprob: float) -> dict[str, Any]:
        text = token_text(decode, ids[max(0, place - TEXT_CONTEXT) : place], token_id)
        return {"token_id": token_id, "text": text, "logprob": logprob}

    return [
        entry(place, token.token_id, token.logprob) | {"top": [entry(place, *other) for other in token.top]}
        for place, token in enumerate(logprobs)
    ]
