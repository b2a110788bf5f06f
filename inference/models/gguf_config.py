"""From a GGUF header to the config.json that transformers reads.

Metadata keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Only architectures whose tensors and
arithmetic map one to one; anything else in the header that would change the arithmetic is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from inference.errors import ModelUnusable
from inference.models.gguf_header import GgufHeader
from inference.models.json_files import JsonObject

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""GGUF's name (which is transformers' model_type too) to the class."""


def build_config(header: GgufHeader, rope_factors: Sequence[float] | None) -> JsonObject:
    """config.json as an object. `rope_factors` are the values of the tensor rope_freqs.weight, if any.

    Raises ModelUnusable, naming what is not supported.
    """
    arch = header.architecture
    if arch not in ARCHITECTURES:
        raise ModelUnusable(
            f"{header.path.name} is of architecture {arch!r}; GGUF files of {', '.join(ARCHITECTURES)} can "
            "run. Try the model's safetensors files."
        )
    _refuse_other_arithmetic(header, arch)
    heads = header.integer(f"{arch}.attention.head_count")
    hidden = header.integer(f"{arch}.embedding_length")
    if heads < 1 or hidden < 1:
        raise ModelUnusable(
            f"{header.path.name} has {heads} heads of {hidden} values; both must be positive."
        )
    head_dim = header.integer(f"{arch}.attention.key_length", hidden // heads)
    config: JsonObject = {
        "architectures": [ARCHITECTURES[arch]],
        "model_type": arch,
        "vocab_size": _vocabulary(header),
        "hidden_size": hidden,
        "intermediate_size": header.integer(f"{arch}.feed_forward_length"),
        "num_hidden_layers": header.integer(f"{arch}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.integer(f"{arch}.attention.head_count_kv", heads),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": header.integer(f"{arch}.context_length"),
        "rms_norm_eps": _short(header.number(f"{arch}.attention.layer_norm_rms_epsilon")),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        **_rope(header, arch, head_dim, rope_factors),
    }
    if arch != "qwen2":
        config["attention_bias"] = "blk.0.attn_q.bias" in header.tensors
    if arch == "llama":
        config["mlp_bias"] = "blk.0.ffn_gate.bias" in header.tensors
    return config


def _short(value: float) -> float:
    """A float32 such as 9.999999747e-06 as the decimal it was written as, 1e-05."""
    return float(f"{value:.7g}")


def _vocabulary(header: GgufHeader) -> int:
    tokens = len(header.items("tokenizer.ggml.tokens"))
    embedding = header.tensors.get("token_embd.weight")
    rows = embedding.shape[0] if embedding else 0
    if tokens > rows:
        raise ModelUnusable(f"{header.path.name} has {tokens:,} tokens, but embeddings for {rows:,}.")
    return rows


def _refuse_other_arithmetic(header: GgufHeader, arch: str) -> None:
    head_dim = header.metadata.get(f"{arch}.attention.key_length")
    shape = {
        "split.count": (0, 1),
        f"{arch}.expert_count": (0,),
        f"{arch}.attention.value_length": (head_dim,),
        f"{arch}.rope.scaling.type": ("none", "linear"),
    }
    for key, allowed in shape.items():
        value = header.metadata.get(key)
        if value is not None and value not in allowed:
            raise ModelUnusable(
                f"{header.path.name} has {key} = {value!r}, which is not supported in GGUF files. Try the "
                "model's safetensors files."
            )


def _rope(header: GgufHeader, arch: str, head_dim: int, factors: Sequence[float] | None) -> JsonObject:
    rotated = header.integer(f"{arch}.rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise ModelUnusable(
            f"{header.path.name} rotates {rotated} of {head_dim} values of a head; only all can run."
        )
    theta = _short(header.number(f"{arch}.rope.freq_base", 10_000.0))
    if factors is not None:
        return {"rope_theta": theta, "rope_parameters": _llama3(header, theta, head_dim, factors)}
    if header.metadata.get(f"{arch}.rope.scaling.type") == "linear":
        factor = header.number(f"{arch}.rope.scaling.factor")
        return {
            "rope_theta": theta,
            "rope_parameters": {"rope_type": "linear", "rope_theta": theta, "factor": factor},
        }
    return {"rope_theta": theta}


def _llama3(header: GgufHeader, theta: float, head_dim: int, factors: Sequence[float]) -> JsonObject:
    """Llama 3's RoPE parameters. The file has only the resulting divisors: computed here, and compared."""
    parameters = {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": _short(max(factors)),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    expected = llama3_divisors(theta, head_dim, _short(max(factors)))
    same = len(expected) == len(factors) and all(
        math.isclose(one, other, rel_tol=1e-4) for one, other in zip(expected, factors, strict=True)
    )
    if not same:
        raise ModelUnusable(
            f"{header.path.name} scales its rotary embedding in an unknown way. Try the model's safetensors "
            "files."
        )
    return parameters


def llama3_divisors(
    theta: float, head_dim: int, factor: float, low: float = 1.0, high: float = 4.0, window: int = 8192
) -> list[float]:
    """What each of the head_dim/2 rotary frequencies is divided by in Llama 3.1 and later.

    Wavelengths up to window/high stay, those above window/low are stretched by `factor`, and in between the
    reciprocals are interpolated. Source: `apply_scaling` in Meta's llama-models (llama3/model.py).
    """
    divisors = []
    for index in range(0, head_dim, 2):
        wavelength = 2 * math.pi * theta ** (index / head_dim)
        if wavelength < window / high:
            divisors.append(1.0)
        elif wavelength > window / low:
            divisors.append(factor)
        else:
            smooth = (window / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return divisors
