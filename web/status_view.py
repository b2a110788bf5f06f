"""What the page `/status` shows, made of the engine's snapshot and its last ten minutes. Pure but for one
look at the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from inference.memory import MemoryPlan
from inference.tally import EngineSnapshot, RunningReply
from inference.types import ModelDescription
from web.plots import Plot, Share, plot, shares
from web.protocol import StatusFrame
from web.telemetry import SAMPLES, Interval, Stored, values


@dataclass(frozen=True, slots=True)
class ChatLine:
    """A reply that is being written, and its conversation's title where that can still be read."""

    reply: RunningReply
    title: str | None


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Where the memory goes, in bytes, and as parts of one bar.

    working: what this process holds beside weights, keys and values; None where those are on another device.
    process: all that it holds of the machine's own memory.
    """

    weights: int
    kv_used: int
    kv_promised: int
    kv_capacity: int
    cache_used: int
    cache_capacity: int
    kept_free: int
    working: int | None
    process: int
    bar: Sequence[Share]


@dataclass(frozen=True, slots=True)
class StatusPlots:
    """The last ten minutes: tokens a second of all chats and of one, seconds to the first token, prompt
    tokens reused and (stacked on them) computed, replies running and (stacked) waiting.
    """

    server: Plot
    chat: Plot
    ttft: Plot
    read: Plot
    queue: Plot


@dataclass(frozen=True, slots=True)
class StatusView:
    """The changing part of the page."""

    status: StatusFrame
    engine: EngineSnapshot
    memory: MemoryView | None
    chats: Sequence[ChatLine]
    plots: StatusPlots
    just_now: Interval | None
    lately: Interval | None
    stored: Stored


def process_bytes() -> int:
    """Of the machine's own memory, what this process holds."""
    return int(psutil.Process().memory_info().rss)


def memory_view(engine: EngineSnapshot, model: ModelDescription, plan: MemoryPlan) -> MemoryView:
    """The memory as it is divided now."""
    used = engine.kv_bytes(engine.kv_used_tokens)
    promised = max(used, engine.kv_bytes(engine.kv_promised_tokens))
    capacity = max(promised, engine.kv_bytes(plan.kv_tokens))
    cache, cache_capacity = engine.prefix_cache_bytes, engine.prefix_cache_capacity
    kept_free = max(0, model.free_bytes - capacity - cache_capacity)
    process = process_bytes()
    counted = model.weight_bytes + used + cache
    bar = [
        ("weights", model.weight_bytes),
        ("kv", used),
        ("free", capacity - used),
        ("cache", cache),
        ("free", max(0, cache_capacity - cache)),
        ("kept", kept_free),
    ]
    return MemoryView(
        weights=model.weight_bytes,
        kv_used=used,
        kv_promised=promised,
        kv_capacity=capacity,
        cache_used=cache,
        cache_capacity=cache_capacity,
        kept_free=kept_free,
        working=max(0, process - counted) if model.device == "cpu" else None,
        process=process,
        bar=shares(bar),
    )


def plots_of(history: Sequence[Interval]) -> StatusPlots:
    """The last ten minutes, drawn."""

    def drawn(series: Sequence[float | None], above: Sequence[float | None] = ()) -> Plot:
        return plot(series, SAMPLES, above)

    return StatusPlots(
        server=drawn(values(history, lambda i: i.server_tok_s)),
        chat=drawn(values(history, lambda i: i.chat_tok_s)),
        ttft=drawn(values(history, lambda i: i.ttft_s)),
        read=drawn(
            values(history, lambda i: i.cached_tokens), above=values(history, lambda i: i.prefill_tokens)
        ),
        queue=drawn(values(history, lambda i: i.running), above=values(history, lambda i: i.waiting)),
    )
