"""The formula of a token's keys and values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inference.kv_shape import KvShape
from inference.types import ModelDescription
from tests.inference.doubles import ScriptedBackend, chat_tokenizer, prepare_double

DOUBLE = ScriptedBackend(chat_tokenizer(), str).description


def of(folder: Path, model: ModelDescription, **config: object) -> KvShape | None:
    prepared = prepare_double(folder)
    (folder / "config.json").write_text(json.dumps(config))
    return KvShape.of(prepared, model)


@pytest.mark.parametrize(
    ("dtype", "size"), [("bfloat16", 23_040), ("int8/float32", 23_040), ("float32", 46_080)]
)
def test_the_default_model_s_keys_and_values(tmp_path: Path, dtype: str, size: int) -> None:
    model = replace(DOUBLE, compute_dtype=dtype, kv_bytes_per_token=size)
    config = {
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "hidden_size": 576,
    }
    assert of(tmp_path, model, **config) == KvShape(30, 3, 64, 4 if dtype == "float32" else 2)
    assert of(tmp_path, model, text_config=config) is not None
    assert of(tmp_path, replace(model, kv_bytes_per_token=size + 1), **config) is None


def test_nothing_is_claimed_where_the_factors_are_unknown(tmp_path: Path) -> None:
    assert of(tmp_path, DOUBLE, num_hidden_layers="thirty") is None
    (tmp_path / "config.json").write_text("{")
    assert KvShape.of(prepare_double(tmp_path), DOUBLE) is None
