"""Keys and values of one sequence for transformers models: contiguous, growing in place. Worker thread."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers.cache_utils import Cache, DynamicLayer

GROWTH_TOKENS = 256


@dataclass(frozen=True, slots=True)
class TorchKVBlock:
    """Copied keys and values: one pair of tensors [heads, tokens, head_dim] a layer."""

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    length: int
    nbytes: int


class GrowingLayer(DynamicLayer):
    """One layer's keys and values in buffers that grow by doubling: a decode step copies one token only.

    `keys` and `values`, of shape [1, heads, tokens, head_dim], are views of the filled part. Sliding-window
    models keep all tokens here too: their masks go by position.
    """

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self._length = 0
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; the views of everything so far."""
        stop = self._length + key_states.shape[-2]
        keys, values = self._room_for(stop, key_states, value_states)
        keys[..., self._length : stop, :] = key_states
        values[..., self._length : stop, :] = value_states
        self._length = stop
        self.keys, self.values = keys[..., :stop, :], values[..., :stop, :]
        self.is_initialized = True
        return self.keys, self.values

    def _room_for(
        self, tokens: int, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self._buffers is not None and self._buffers[0].shape[-2] >= tokens:
            return self._buffers
        capacity = max(tokens + GROWTH_TOKENS, 2 * self._length)
        grown = (_larger(key_states, capacity), _larger(value_states, capacity))
        if self._buffers is not None:
            for new, old in zip(grown, self._buffers, strict=True):
                new[..., : self._length, :] = old[..., : self._length, :]
        self._buffers = grown
        return grown


class SequenceKV:
    """The KV cache of one running sequence."""

    def __init__(self, layers: int) -> None:
        self.layers = [GrowingLayer() for _ in range(layers)]
        self.cache = Cache(layers=self.layers)

    @property
    def length(self) -> int:
        """Tokens held."""
        return int(self.layers[-1].get_seq_length())

    def copy(self, start: int, stop: int) -> TorchKVBlock:
        """A copy of tokens start..stop (exclusive)."""
        layers = tuple(
            (layer.keys[0, :, start:stop].clone(), layer.values[0, :, start:stop].clone())
            for layer in self.layers
        )
        return TorchKVBlock(layers, stop - start, sum(k.nbytes + v.nbytes for k, v in layers))

    def append(self, block: TorchKVBlock, length: int) -> None:
        """Append the first `length` tokens of a block."""
        for layer, (keys, values) in zip(self.layers, block.layers, strict=True):
            layer.update(keys[None, :, :length], values[None, :, :length])


def _larger(like: torch.Tensor, tokens: int) -> torch.Tensor:
    batch, heads, _, head_dim = like.shape
    return like.new_empty((batch, heads, tokens, head_dim))
