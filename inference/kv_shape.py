"""How the size of a token's keys and values comes about, read from a model's config.json. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inference.errors import ModelUnusable
from inference.models.json_files import read_object
from inference.models.prepared import PreparedModel
from inference.types import ModelDescription

VALUE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8/float32": 2}
"""By compute dtype; the last is the native backend's, which keeps float16."""


@dataclass(frozen=True, slots=True)
class KvShape:
    """Every layer keeps one key and one value for each of its heads, of `head_dim` numbers."""

    layers: int
    heads: int
    head_dim: int
    value_bytes: int

    @property
    def bytes_per_token(self) -> int:
        """2 (key and value) x layers x heads x head_dim x value_bytes."""
        return 2 * self.layers * self.heads * self.head_dim * self.value_bytes

    @classmethod
    def of(cls, prepared: PreparedModel, model: ModelDescription) -> KvShape | None:
        """The factors of `model.kv_bytes_per_token`; None where config.json does not tell them."""
        try:
            config = read_object(prepared.folder / "config.json")
        except (ModelUnusable, OSError):
            return None
        nested = config.get("text_config")
        config = nested if isinstance(nested, dict) else config
        heads = _number(config, "num_attention_heads")
        shape = cls(
            layers=_number(config, "num_hidden_layers"),
            heads=_number(config, "num_key_value_heads") or heads,
            head_dim=_number(config, "head_dim") or _number(config, "hidden_size") // max(1, heads),
            value_bytes=VALUE_BYTES.get(model.compute_dtype, 0),
        )
        return shape if shape.bytes_per_token == model.kv_bytes_per_token > 0 else None


def _number(config: dict[str, Any], name: str) -> int:
    value = config.get(name)
    return value if isinstance(value, int) else 0
