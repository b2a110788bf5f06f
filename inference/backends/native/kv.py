"""Keys and values in float16 for the native backend: of running sequences, and copied blocks. Worker thread.

Both have the kernels' layout (`kv_view` in ondol.h), so that a copy moves whole tiles of 16 tokens.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from inference.backends.base import BlockArrays
from inference.backends.native.decoder import Decoder
from inference.backends.native.library import SPAN, KVShape, KVView

TILE = 16
LEAST_CAPACITY = 4096
"""Tokens. Address space alone costs nothing; from here on it doubles."""

Halves = npt.NDArray[np.uint16]


def _tiles(tokens: int) -> int:
    return -(-tokens // TILE)


@dataclass(frozen=True, slots=True)
class NativeKVBlock:
    """data: float16 bits [layers, kv heads, 2, tokens rounded up to whole tiles, head_dim], zero where no
    token is.
    """

    data: Halves
    length: int
    nbytes: int


class KVMemory:
    """Makes, copies and converts keys and values of one model."""

    def __init__(self, library: ctypes.CDLL, decoder: Decoder, window: int) -> None:
        self._library = library
        self._decoder = decoder
        self._window = window
        self._shape = KVShape(decoder.layers, decoder.kv_heads, decoder.head_dim)

    def sequence(self, tokens: int) -> SequenceKV:
        """An empty cache."""
        return SequenceKV(self, tokens)

    def reserve(self, tokens: int) -> tuple[mmap.mmap, int]:
        """Zeroed room for so many tokens or more, and for how many. Only what is touched takes memory."""
        wanted = max(tokens, min(self._window, max(LEAST_CAPACITY, 2 * tokens)))
        capacity = SPAN * -(-wanted // SPAN)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        try:
            memory = mmap.mmap(-1, capacity * self._decoder.kv_bytes_per_token, flags=flags)
        except OSError as error:
            raise MemoryError(f"keys and values of {capacity:,} tokens") from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        return memory, capacity

    def copy(self, source: KVView, start: int, target: KVView, at: int, length: int) -> None:
        """Copy tokens `start`.. of one view to `at`.. of another."""
        if length:
            self._library.ondol_kv_copy(self._shape, source, start, target, at, length)

    def block(self, kv: SequenceKV, start: int, stop: int) -> NativeKVBlock:
        """A copy of tokens start..stop (exclusive)."""
        length = stop - start
        data = np.zeros(self._block_shape(_tiles(length)), np.uint16)
        self.copy(kv.view(), start, _view(data, length), 0, length)
        return self._block(data, length)

    def append(self, kv: SequenceKV, parts: Sequence[tuple[NativeKVBlock, int]]) -> None:
        """Append the first tokens of some blocks."""
        kv.make_room(sum(length for _, length in parts))
        for block, length in parts:
            self.copy(_view(block.data, block.length), 0, kv.view(), kv.length, length)
            kv.length += length

    def to_arrays(self, block: NativeKVBlock) -> BlockArrays:
        """Keys and values, float16 [layers, kv heads, tokens, head_dim], whatever the kernels' layout is."""
        layers, heads, _, padded, dim = block.data.shape
        keys = block.data[:, :, 0].reshape(layers, heads, padded // TILE, dim, TILE).swapaxes(3, 4)
        plain = (keys.reshape(layers, heads, padded, dim), block.data[:, :, 1])
        named = zip(("keys", "values"), plain, strict=True)
        return {
            name: np.ascontiguousarray(part[:, :, : block.length]).view(np.float16) for name, part in named
        }

    def from_arrays(self, arrays: BlockArrays) -> NativeKVBlock:
        """The block whose `to_arrays` these are. Raises ValueError when they do not fit the model."""
        if arrays.keys() != {"keys", "values"}:
            raise ValueError(f"{', '.join(sorted(arrays))} are not keys and values")
        keys, values = arrays["keys"], arrays["values"]
        length = keys.shape[2] if keys.ndim == 4 else 0
        shape = self._block_shape(_tiles(length))
        layers, heads, _, padded, dim = shape
        expected = (layers, heads, length, dim)
        if length < 1 or any(part.shape != expected or part.dtype != np.float16 for part in (keys, values)):
            raise ValueError(f"{keys.dtype} of shape {keys.shape} is no block of this model")
        data = np.zeros(shape, np.uint16)
        data[:, :, :, :length] = np.stack((keys, values), axis=2).view(np.uint16)
        tiles = data[:, :, 0].reshape(layers, heads, padded // TILE, TILE, dim)
        data[:, :, 0] = tiles.swapaxes(3, 4).reshape(layers, heads, padded, dim)
        return self._block(data, length)

    def _block(self, data: Halves, length: int) -> NativeKVBlock:
        return NativeKVBlock(data, length, length * self._decoder.kv_bytes_per_token)

    def _block_shape(self, tiles: int) -> tuple[int, int, int, int, int]:
        return (self._decoder.layers, self._decoder.kv_heads, 2, tiles * TILE, self._decoder.head_dim)


class SequenceKV:
    """The keys and values of one running sequence."""

    def __init__(self, memory: KVMemory, tokens: int) -> None:
        self._memory = memory
        self._room, self._capacity = memory.reserve(tokens)
        self._data = np.frombuffer(self._room, np.uint16)
        self.length = 0

    def make_room(self, tokens: int) -> None:
        """See to it that so many more tokens can be appended."""
        if self.length + tokens <= self._capacity:
            return
        room, capacity = self._memory.reserve(self.length + tokens)
        grown = np.frombuffer(room, np.uint16)
        used = SPAN * -(-self.length // SPAN) * (len(self._data) // self._capacity)
        grown[:used] = self._data[:used]
        self._room, self._data, self._capacity = room, grown, capacity

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens; their memory stays for those to come."""
        self.length = min(self.length, length)

    def give_back(self, stop: int) -> None:
        """Let the memory of tokens before `stop` go, in whole spans: they read as zeros from now on."""
        nbytes = stop // SPAN * SPAN * (len(self._room) // self._capacity)
        if hasattr(mmap, "MADV_DONTNEED") and nbytes:
            self._room.madvise(mmap.MADV_DONTNEED, 0, nbytes // mmap.PAGESIZE * mmap.PAGESIZE)

    def view(self) -> KVView:
        """For the kernels; valid until room is made."""
        return KVView(self._data.ctypes.data, SPAN, self.length)


def _view(data: npt.NDArray[Any], length: int) -> KVView:
    return KVView(data.ctypes.data, data.shape[3], length)
