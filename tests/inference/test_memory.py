"""The memory plan: what is promised fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.errors import ModelUnusable
from inference.memory import MemoryPlan
from inference.types import ModelDescription
from tests.inference.doubles import ScriptedBackend, chat_tokenizer, engine_config

MODEL = replace(
    ScriptedBackend(chat_tokenizer(), str).description, context_window=8_192, kv_bytes_per_token=46_080
)
GIB = 2**30


def plan(free: int, **changes: object) -> MemoryPlan:
    config = engine_config(Path(), max_sequences=8, prefix_cache_bytes=GIB // 2, **changes)
    return MemoryPlan.for_model(replace(MODEL, free_bytes=free), config)


def test_plenty_of_memory_gives_the_whole_window_and_all_places() -> None:
    plenty = plan(16 * GIB)
    assert plenty.window == 8_192
    assert plenty.max_sequences == 8
    assert plenty.prefix_cache_bytes == GIB // 2


def test_little_memory_gives_fewer_places_first_and_a_smaller_window_last() -> None:
    assert plan(1 * GIB).window == 8_192
    assert plan(1 * GIB).max_sequences == 4
    assert plan(GIB // 3).window < 8_192
    assert plan(GIB // 3).max_sequences == 1


def test_too_little_memory_is_refused_with_the_numbers() -> None:
    with pytest.raises(ModelUnusable, match=r"room for 291 tokens in 32 MiB .* a chat needs 512"):
        plan(32 * 2**20)


@given(st.integers(60 * 2**20, 64 * GIB), st.integers(100, 10**6))
def test_whatever_is_free_the_plan_stays_within_it(free: int, bytes_per_token: int) -> None:
    model: ModelDescription = replace(MODEL, free_bytes=free, kv_bytes_per_token=bytes_per_token)
    try:
        planned = MemoryPlan.for_model(model, engine_config(Path(), prefix_cache_bytes=GIB))
    except ModelUnusable:
        return
    assert planned.kv_tokens * bytes_per_token + planned.prefix_cache_bytes <= free
    assert planned.window <= planned.kv_tokens
    assert planned.max_sequences >= 1
