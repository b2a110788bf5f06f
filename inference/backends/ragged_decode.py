"""One decode step for sequences of different lengths, without padding. Worker thread.

The linear layers of a transformers model see a batch of one token each, so that 4-bit weights are read (and
where there is no fused kernel, dequantized) once for all. Attention then goes through the sequences one by
one, each over its own contiguous keys and values: nothing is padded, gathered or copied. The seams are
transformers' own: a cache whose `update` returns one view a sequence, and an attention function registered
under a name of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from inference.backends.kv_memory import GrowingLayer, SequenceKV

ATTENTION = "ondol"


class _BatchLayer(DynamicLayer):
    """One layer of several sequences: row i of what is appended goes to sequence i."""

    def __init__(self, layers: Sequence[GrowingLayer]) -> None:
        super().__init__()
        self._layers = layers
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Append tensors of shape [sequences, heads, 1, head_dim]; everything so far, one view a sequence."""
        rows = [
            layer.update(key_states[row : row + 1], value_states[row : row + 1])
            for row, layer in enumerate(self._layers)
        ]
        return [keys for keys, _ in rows], [values for _, values in rows]

    def get_seq_length(self) -> int:
        """Tokens of the longest sequence: only masks ask, and a step of one token needs none."""
        return max(int(layer.get_seq_length()) for layer in self._layers)


def batch_cache(kvs: Sequence[SequenceKV]) -> Cache:
    """A cache that spreads a batch over the sequences' own caches."""
    return Cache(layers=[_BatchLayer(layers) for layers in zip(*(kv.layers for kv in kvs), strict=True)])


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor | list[torch.Tensor],
    value: torch.Tensor | list[torch.Tensor],
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' scaled dot-product attention, and the same over one key tensor a sequence.

    query: [batch, heads, tokens, head_dim]. Returns [batch, tokens, heads, head_dim].
    """
    if isinstance(key, torch.Tensor):
        output: torch.Tensor = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )[0]
        return output, None
    rows = [_attend(q, k, v, scaling) for q, k, v in zip(query, key, value, strict=True)]
    return torch.stack(rows), None


def _attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None
) -> torch.Tensor:
    """One token's attention over one sequence.

    The queries of a group stand where the tokens of a longer query would, so that they share their keys and
    values without copying them. query: [heads, 1, head_dim]; keys, values: [1, kv_heads, tokens, head_dim].
    Returns [1, heads, head_dim].
    """
    heads, _, head_dim = query.shape
    kv_heads = keys.shape[1]
    grouped = query.reshape(1, kv_heads, heads // kv_heads, head_dim)
    output = torch.nn.functional.scaled_dot_product_attention(grouped, keys, values, scale=scaling)
    return output.reshape(1, heads, head_dim)


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
