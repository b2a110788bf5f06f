"""A model and its GGUF export compute the same logits: names, order of rows and configuration all fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from inference.models.gguf_weights import read_state_dict
from tests.inference.models.conftest import Preparing
from tests.inference.models.examples import tiny_config, write_gguf


def random_model(arch: str, **changes: Any) -> Any:
    config = {
        key: value for key, value in tiny_config().items() if key not in ("architectures", "model_type")
    }
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(arch, **{**config, **changes}))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def logits(model: Any) -> torch.Tensor:
    ids = torch.arange(40).reshape(1, -1) * 7 % 320
    with torch.inference_mode():
        return model(input_ids=ids).logits


@pytest.mark.parametrize(
    ("arch", "changes"),
    [
        ("llama", {}),
        ("llama", {"attention_bias": False, "tie_word_embeddings": False}),
        ("llama", {"attention_bias": True, "mlp_bias": True}),
        ("llama", {"head_dim": 16}),
        ("qwen2", {}),
        ("qwen3", {"head_dim": 16}),
    ],
)
def test_an_export_computes_the_same_logits(
    tmp_path: Path, preparing: Preparing, arch: str, changes: dict[str, Any]
) -> None:
    original = random_model(arch, **changes)
    tied = original.config.tie_word_embeddings
    weights = {
        name: values.numpy()
        for name, values in original.state_dict().items()
        if not (tied and name == "lm_head.weight")
    }
    gguf = write_gguf(tmp_path / "m.gguf", weights, arch=arch, config=tiny_config() | changes)
    prepared = preparing(gguf)
    rebuilt = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(prepared.folder))
    assert (
        type(rebuilt).__name__ in json.loads((prepared.folder / "config.json").read_text())["architectures"]
    )
    state = {name: torch.from_numpy(values) for name, values in read_state_dict(gguf)}
    missing, unexpected = rebuilt.load_state_dict(state, strict=False)
    assert unexpected == []
    assert set(missing) <= {"lm_head.weight"}
    torch.testing.assert_close(logits(rebuilt.eval()), logits(original), rtol=1e-5, atol=1e-5)
