"""Tiny random models of each family, which transformers computes in float32 on the dequantized blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from gguf import GGMLQuantizationType
from transformers import AutoConfig, AutoModelForCausalLM

from inference.models.gguf_weights import read_state_dict
from tests.inference.doubles import CHATML
from tests.inference.models.examples import tiny_config, write_gguf

SHAPE = {"hidden_size": 64, "intermediate_size": 160, "head_dim": 32, "max_position_embeddings": 512}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama with all biases and a head": (
        "llama",
        {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False},
    ),
    "one key a query": ("llama", {"num_key_value_heads": 4, "head_dim": 16}),
    "qwen2": ("qwen2", {"head_dim": 16}),
    "qwen3": ("qwen3", {}),
}


def write_model(
    path: Path,
    family: str,
    kind: GGMLQuantizationType = GGMLQuantizationType.Q4_1,
    *,
    std: float = 0.12,
    **more: Any,
) -> Path:
    """A GGUF file with random weights, of a size that keeps the distributions neither flat nor certain."""
    arch, changes = FAMILIES[family]
    config = {**tiny_config(), **SHAPE, **changes, **more}
    shape = {key: value for key, value in config.items() if key not in ("architectures", "model_type")}
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(arch, **shape))
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("norm" in name), std=std)
    weights = {
        name: values.numpy()
        for name, values in model.state_dict().items()
        if not (config["tie_word_embeddings"] and name == "lm_head.weight")
    }
    return write_gguf(path, weights, arch=arch, config=config, kind=kind, template=CHATML)


def reference(folder: Path, gguf: Path) -> torch.nn.Module:
    """transformers' float32 model of a prepared GGUF file, on its dequantized weights."""
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).eval()
    state = {name: torch.from_numpy(values) for name, values in read_state_dict(gguf)}
    assert not model.load_state_dict(state, strict=False).unexpected_keys
    return model
