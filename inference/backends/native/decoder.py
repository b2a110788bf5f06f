"""One description for every decoder that the native backend runs: Llama (Mistral, SmolLM2), Qwen2, Qwen3.

They differ in what stands here, not in code: biases and norms on queries and keys are there or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from inference.models.gguf_config import llama3_divisors
from inference.models.json_files import JsonObject

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
BLOCK = 32
"""Matrices come in blocks of so many columns."""

LANES = 16
"""A head's values are computed so many at a time."""


class Unfit(Exception):
    """The native backend does not run this; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """Shapes and arithmetic. `frequencies`: radians a token by which each pair of a head turns. `tied`: the
    head is the embedding. `head_norms`: queries and keys are normalized. `permuted`: a GGUF file of it has
    the rows of q and k interleaved.
    """

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    epsilon: float
    frequencies: tuple[float, ...]
    tied: bool
    head_norms: bool
    permuted: bool

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of all layers in float16."""
        return self.layers * 2 * self.kv_heads * self.head_dim * 2

    @classmethod
    def from_config(cls, config: JsonObject) -> Decoder:
        """Read transformers' config.json. Raises `Unfit`."""
        family = config.get("model_type")
        if family not in FAMILIES:
            raise Unfit(f"It runs {', '.join(FAMILIES)}, not {family!r}.")
        _refuse_other_arithmetic(config)
        heads, hidden = _count(config, "num_attention_heads"), _count(config, "hidden_size")
        head_dim = _count(config, "head_dim", hidden // heads)
        decoder = cls(
            layers=_count(config, "num_hidden_layers"),
            hidden=hidden,
            inner=_count(config, "intermediate_size"),
            heads=heads,
            kv_heads=_count(config, "num_key_value_heads", heads),
            head_dim=head_dim,
            vocab=_count(config, "vocab_size"),
            epsilon=config.get("rms_norm_eps", 1e-6),
            frequencies=_frequencies(config, head_dim),
            tied=bool(config.get("tie_word_embeddings", False)),
            head_norms=family == "qwen3",
            permuted=family in ("llama", "mistral"),
        )
        decoder._check()
        return decoder

    def _check(self) -> None:
        odd = [size for size in (self.hidden, self.inner, self.heads * self.head_dim) if size % BLOCK]
        if odd:
            raise Unfit(f"A layer has {odd[0]:,} values, no multiple of {BLOCK}.")
        if self.head_dim % LANES:
            raise Unfit(f"A head has {self.head_dim} values, no multiple of {LANES}.")
        if self.heads % self.kv_heads:
            raise Unfit(f"{self.heads} heads cannot share {self.kv_heads}.")


def _count(config: JsonObject, name: str, default: int | None = None) -> int:
    value = config.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**24:
        raise Unfit(f"Its {name} is {value!r:.40}.")
    return value


def _refuse_other_arithmetic(config: JsonObject) -> None:
    if config.get("hidden_act", "silu") != "silu":
        raise Unfit(f"Its activation is {config['hidden_act']!r}.")
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    if window is not None and window < config.get("max_position_embeddings", math.inf):
        raise Unfit(f"It attends to {window:,} tokens at a time only.")
    if set(config.get("layer_types") or ["full_attention"]) != {"full_attention"}:
        raise Unfit("Not all of its layers attend to all tokens.")


def _frequencies(config: JsonObject, head_dim: int) -> tuple[float, ...]:
    parameters: dict[str, Any] = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if any(isinstance(value, dict) for value in parameters.values()):
        raise Unfit("Its layers do not rotate alike.")
    theta = float(parameters.get("rope_theta") or config.get("rope_theta") or 10_000.0)
    plain = [theta ** (-i / head_dim) for i in range(0, head_dim, 2)]
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    if parameters.get("partial_rotary_factor", 1.0) != 1.0 or config.get("partial_rotary_factor", 1.0) != 1.0:
        raise Unfit("It rotates a part of each head.")
    if kind == "default":
        return tuple(plain)
    if kind == "linear":
        return tuple(frequency / float(parameters["factor"]) for frequency in plain)
    if kind == "llama3":
        divisors = llama3_divisors(
            theta,
            head_dim,
            float(parameters["factor"]),
            float(parameters["low_freq_factor"]),
            float(parameters["high_freq_factor"]),
            int(parameters["original_max_position_embeddings"]),
        )
        return tuple(frequency / divisor for frequency, divisor in zip(plain, divisors, strict=True))
    raise Unfit(f"Its rotary embedding is of type {kind!r}.")
