"""Keys and values of one sequence for transformers models: contiguous, growing in place. Worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from transformers.cache_utils import Cache, DynamicLayer

from inference.backends.base import BlockArrays

GROWTH_TOKENS = 256


@dataclass(frozen=True, slots=True)
class TorchKVBlock:
    """Copied keys and values: one pair of tensors [heads, tokens, head_dim] a layer."""

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    length: int
    nbytes: int

    @classmethod
    def of(cls, layers: tuple[tuple[torch.Tensor, torch.Tensor], ...], length: int) -> TorchKVBlock:
        """A block of these tensors, which it owns."""
        return cls(layers, length, sum(keys.nbytes + values.nbytes for keys, values in layers))

    def first(self, length: int) -> TorchKVBlock:
        """The first `length` tokens: views of them, unless it is all."""
        if length == self.length:
            return self
        layers = tuple((keys[:, :length], values[:, :length]) for keys, values in self.layers)
        return TorchKVBlock.of(layers, length)

    def to_arrays(self) -> BlockArrays:
        """Arrays called keys.0, values.0, keys.1, ...; numpy has no bfloat16, so its bits go as int16."""
        named = {f"keys.{i}": keys for i, (keys, _) in enumerate(self.layers)}
        named |= {f"values.{i}": values for i, (_, values) in enumerate(self.layers)}
        return {
            name: (tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor).cpu().numpy()
            for name, tensor in named.items()
        }

    @classmethod
    def from_arrays(
        cls, arrays: BlockArrays, layers: int, dtype: torch.dtype, device: torch.device
    ) -> TorchKVBlock:
        """The block whose `to_arrays` these are. Raises ValueError when they do not fit the model."""
        names = [(f"keys.{i}", f"values.{i}") for i in range(layers)]
        if not layers or arrays.keys() != {name for pair in names for name in pair}:
            raise ValueError(f"{len(arrays)} arrays are not the keys and values of {layers} layers")
        pairs = [(_tensor(arrays[k], dtype, device), _tensor(arrays[v], dtype, device)) for k, v in names]
        lengths = {tensor.shape[-2] for pair in pairs for tensor in pair}
        if len(lengths) != 1:
            raise ValueError(f"layers hold different numbers of tokens: {sorted(lengths)}")
        return cls.of(tuple(pairs), lengths.pop())


class GrowingLayer(DynamicLayer):
    """One layer's keys and values in buffers that grow by doubling: a decode step copies one token only.

    `keys` and `values`, of shape [1, heads, tokens, head_dim], are views of the filled part. Sliding-window
    models keep all tokens here too: their masks go by position.
    """

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, tokens: int = 0) -> None:
        super().__init__()
        self._expected = tokens
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
        self._show(keys, values, stop)
        self.is_initialized = True
        return self.keys, self.values

    def extend(self, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        """Append tensors of shape [heads, tokens, head_dim], each copied once, to where it stays."""
        start, stop = self._length, self._length + sum(part.shape[1] for part in keys)
        buffers = self._room_for(stop, keys[0][None], values[0][None])
        for buffer, parts in zip(buffers, (keys, values), strict=True):
            torch.cat(list(parts), dim=1, out=buffer[0, :, start:stop])
        self._show(*buffers, stop)
        self.is_initialized = True

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens; their memory stays for those to come."""
        if self._buffers is not None and length < self._length:
            self._show(*self._buffers, length)

    def _show(self, keys: torch.Tensor, values: torch.Tensor, length: int) -> None:
        self._length = length
        self.keys, self.values = keys[..., :length, :], values[..., :length, :]

    def _room_for(
        self, tokens: int, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self._buffers is not None and self._buffers[0].shape[-2] >= tokens:
            return self._buffers
        capacity = max(max(tokens, self._expected) + GROWTH_TOKENS, 2 * self._length)
        grown = (_larger(key_states, capacity), _larger(value_states, capacity))
        if self._buffers is not None:
            for new, old in zip(grown, self._buffers, strict=True):
                new[..., : self._length, :] = old[..., : self._length, :]
        self._buffers = grown
        return grown


class SequenceKV:
    """The KV cache of one running sequence."""

    def __init__(self, layers: int, tokens: int = 0) -> None:
        self.layers = [GrowingLayer(tokens) for _ in range(layers)]
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
        return TorchKVBlock.of(layers, stop - start)

    def append(self, parts: Sequence[tuple[TorchKVBlock, int]]) -> None:
        """Append the first tokens of some blocks: one copy a layer, since each of many small ones costs
        more than its bytes.
        """
        blocks = [block.first(length) for block, length in parts]
        for index, layer in enumerate(self.layers):
            layer.extend(*zip(*(block.layers[index] for block in blocks), strict=True))

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        for layer in self.layers:
            layer.truncate(length)


def _tensor(array: npt.NDArray[Any], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of [heads, tokens, head_dim] with its own memory."""
    tensor = torch.tensor(array, device=device)
    if dtype is torch.bfloat16 and tensor.dtype is torch.int16:
        tensor = tensor.view(torch.bfloat16)
    if tensor.dtype is not dtype or tensor.dim() != 3:
        raise ValueError(f"{tensor.dtype} of shape {tuple(tensor.shape)} is no block of {dtype}")
    return tensor


def _larger(like: torch.Tensor, tokens: int) -> torch.Tensor:
    batch, heads, _, head_dim = like.shape
    return like.new_empty((batch, heads, tokens, head_dim))
