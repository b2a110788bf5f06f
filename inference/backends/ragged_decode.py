"""One decode step for sequences of different lengths, without padding. Worker thread.

The linear layers of a transformers model see a batch of single tokens, so that 4-bit weights are read (and
where there is no fused kernel, dequantized) once for all. Attention then goes through the sequences one by
one, each over its own contiguous keys and values: nothing is padded, gathered or copied. A sequence may add
several tokens in a step, to have a draft of them verified. The seams are transformers' own: a cache whose
`update` returns one view a sequence, and an attention function registered under a name of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from inference.backends.kv_memory import GrowingLayer, SequenceKV

ATTENTION = "ondol"


class Ragged(NamedTuple):
    """Keys or values of several sequences, [1, heads, length, head_dim] each, and how many of the batch's
    rows belong to each.
    """

    views: list[torch.Tensor]
    runs: list[int]


class _BatchLayer(DynamicLayer):
    """One layer of several sequences: the first `runs[0]` rows that are appended go to the first, and so
    on.
    """

    def __init__(self, layers: Sequence[GrowingLayer], runs: Sequence[int]) -> None:
        super().__init__()
        self._layers = layers
        self._runs = list(runs)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[Ragged, Ragged]:
        """Append tensors of shape [rows, heads, 1, head_dim]; everything so far."""
        grown = [
            layer.update(keys.transpose(0, 2), values.transpose(0, 2))
            for layer, keys, values in zip(
                self._layers,
                torch.split(key_states, self._runs),
                torch.split(value_states, self._runs),
                strict=True,
            )
        ]
        keys, values = ([pair[i] for pair in grown] for i in (0, 1))
        return Ragged(keys, self._runs), Ragged(values, self._runs)

    def get_seq_length(self) -> int:
        """Tokens of the longest sequence: only masks ask, and a step of single tokens needs none."""
        return max(int(layer.get_seq_length()) for layer in self._layers)


def batch_cache(kvs: Sequence[SequenceKV], runs: Sequence[int]) -> Cache:
    """A cache that spreads a batch of rows over the sequences' own caches, `runs[i]` rows to the i-th."""
    layers = zip(*(kv.layers for kv in kvs), strict=True)
    return Cache(layers=[_BatchLayer(of_sequences, runs) for of_sequences in layers])


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor | Ragged,
    value: torch.Tensor | Ragged,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' scaled dot-product attention, and the same over one key tensor a sequence.

    query: [batch, heads, tokens, head_dim]. Returns [batch, tokens, heads, head_dim].
    """
    if isinstance(key, Ragged) and isinstance(value, Ragged):
        parts = zip(torch.split(query, key.runs), key.views, value.views, strict=True)
        return torch.cat([_attend_to_own(q, k, v, scaling) for q, k, v in parts]), None
    assert isinstance(key, torch.Tensor)
    assert isinstance(value, torch.Tensor)
    plain = kwargs.get("softcap") is None and kwargs.get("position_bias") is None
    if plain and attention_mask is not None and query.device.type == "cpu":
        return _attend(query, key, value, attention_mask, scaling).transpose(1, 2), None
    output: torch.Tensor = sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, **kwargs
    )[0]
    return output, None


def _attend_to_own(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None
) -> torch.Tensor:
    """A run's attention over its own sequence, whose last tokens are the run.

    query: [run, heads, 1, head_dim]. Returns [run, 1, heads, head_dim].
    """
    run, length = query.shape[0], keys.shape[2]
    mask = None
    if run > 1:
        hidden = torch.full((run, length), float("-inf"), dtype=query.dtype, device=query.device)
        mask = hidden.triu(length - run + 1)[None, None]
    return _attend(query.transpose(0, 2), keys, values, mask, scaling).permute(2, 0, 1, 3)


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
) -> torch.Tensor:
    """Attention whose heads share keys and values in groups, without copying them for each head.

    On CUDA the fast kernels take no mask together with groups; there transformers' function is the better
    one for long queries.
    """
    return torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, mask, scale=scaling, enable_gqa=query.shape[1] != keys.shape[1]
    )


def additive_mask(*args: Any, dtype: torch.dtype, **kwargs: Any) -> torch.Tensor | None:
    """transformers' mask as what attention adds to its scores: made once a step, where torch would turn the
    boolean one into this in every layer.
    """
    mask = sdpa_mask(*args, dtype=dtype, **kwargs)
    if mask is None:
        return None
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, float("-inf"))


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, additive_mask)
