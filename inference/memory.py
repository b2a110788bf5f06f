"""What fits: the memory that is free beside the weights, divided between running replies and the cache."""

from __future__ import annotations

from dataclasses import dataclass

from inference.config import EngineConfig
from inference.errors import ModelUnusable
from inference.types import ModelDescription

USABLE_SHARE = 0.6
"""Of the free memory; the rest is for one step's working memory and for everything else on the machine."""

CACHE_SHARE = 1 / 3
"""Of the usable memory, at most, is for the prefix cache."""

SMALLEST_WINDOW = 512
USUAL_CHAT = 2_048
"""Tokens of a long household chat: so many more of them fit, so many may run side by side."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """kv_tokens: tokens of all running replies together. window: of one. max_sequences: replies at once."""

    kv_tokens: int
    window: int
    max_sequences: int
    prefix_cache_bytes: int

    @classmethod
    def for_model(cls, model: ModelDescription, config: EngineConfig) -> MemoryPlan:
        """Divide what is free. Raises `ModelUnusable` when not even a small window fits."""
        usable = int(model.free_bytes * USABLE_SHARE)
        cache = min(config.prefix_cache_bytes, int(usable * CACHE_SHARE))
        kv_tokens = (usable - cache) // max(1, model.kv_bytes_per_token)
        window = min(model.context_window, kv_tokens)
        if window < min(SMALLEST_WINDOW, model.context_window):
            free = f"{model.free_bytes / 2**20:,.0f} MiB of free memory"
            raise ModelUnusable(
                f"{model.name} leaves room for {kv_tokens:,} tokens in {free}; a chat needs "
                f"{SMALLEST_WINDOW:,}. Close other programs or choose a smaller model."
            )
        side_by_side = kv_tokens // min(window, USUAL_CHAT)
        return cls(kv_tokens, window, max(1, min(config.max_sequences, side_by_side)), cache)
