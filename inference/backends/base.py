"""The seam between the engine and a computation. Called on the worker thread only; logits are numpy arrays,
so that a backend without torch is possible and the sampler needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from inference.types import ModelDescription

Logits: TypeAlias = npt.NDArray[np.float32]
BlockArrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""The content of a block by name, bit for bit, in types that numpy has."""


class KVBlock(Protocol):
    """A copy of the keys and values of consecutive tokens. Immutable."""

    @property
    def length(self) -> int:
        """Tokens held."""

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""


class KVCache(Protocol):
    """The keys and values of one running sequence, contiguous, owned by it."""

    @property
    def length(self) -> int:
        """Tokens held."""


class Backend(Protocol):
    """Runs a model: prefill, decode, and copies of KV memory. Those raise `OutOfMemory` where the device has
    none left; anything else that they raise is a failed step too.
    """

    @property
    def description(self) -> ModelDescription:
        """What runs."""

    def create_kv(self, tokens: int = 0) -> Any:
        """An empty KV cache for a new sequence that is expected to hold so many tokens at first."""

    def prefill(self, kv: Any, token_ids: Sequence[int], *, logits: bool) -> Logits | None:
        """Append one chunk to `kv`; the last token's logits, shape [vocab], when `logits` is asked for."""

    def decode(self, kvs: Sequence[Any], runs: Sequence[Sequence[int]]) -> Logits:
        """One step: append run i, of one or more tokens, to cache i. Where a reply is scored, its run is as
        long as a prefill chunk.

        Returns logits after each of the tokens, in the order of the runs: [sum of their lengths, vocab].
        """

    def truncate(self, kv: Any, length: int) -> None:
        """Forget all but the first `length` tokens of `kv`."""

    def copy_block(self, kv: Any, start: int, stop: int) -> Any:
        """A copy of tokens start..stop (exclusive) of `kv`."""

    def move_block(self, kv: Any, start: int, stop: int) -> Any:
        """The same where `kv` is used no more: the memory of tokens before `stop` may be given back."""

    def append_blocks(self, kv: Any, parts: Sequence[tuple[Any, int]]) -> None:
        """Append the first tokens of some blocks, each with how many, to `kv`."""

    def block_to_arrays(self, block: Any) -> BlockArrays:
        """The content of a block, to be kept in a file."""

    def block_from_arrays(self, arrays: BlockArrays) -> Any:
        """The block with this content. Raises ValueError when it cannot be one of this model's."""

    def close(self) -> None:
        """Release the model's memory."""
