"""The native backend: 4- and 8-bit weights on the CPU, by kernels of our own. Worker thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, TypeVar

import numpy as np
import psutil

from inference.backends.base import BlockArrays, Logits
from inference.backends.native.decoder import Decoder, Unfit
from inference.backends.native.gguf_source import GgufSource
from inference.backends.native.kv import KVMemory, NativeKVBlock, SequenceKV
from inference.backends.native.library import (
    LOGITS_ALL,
    LOGITS_LAST,
    LOGITS_NONE,
    MOST_TOKENS,
    load_library,
)
from inference.backends.native.model import NativeModel
from inference.backends.native.safetensors_source import SafetensorsSource
from inference.errors import OutOfMemory
from inference.models.gguf_header import read_header
from inference.models.json_files import read_object
from inference.models.prepared import PreparedModel
from inference.types import ModelDescription

NAME = "native"

P = ParamSpec("P")
T = TypeVar("T")


class NativeBackend:
    """Prefill and decode are one kind of step; a row's numbers do not depend on the rows beside it."""

    def __init__(
        self, prepared: PreparedModel, *, threads: int | None = None, kernels: str | None = None
    ) -> None:
        """Load the model. Raises `NativeUnavailable`, `Unfit` or `OutOfMemory`."""
        source, decoder = fitting(prepared)
        library = load_library()
        threads = threads or usable_cores()
        self._memory = KVMemory(library, decoder, prepared.context_window)
        self._model = NativeModel(library, decoder, threads, source.packed_bytes, kernels)
        try:
            source.load(self._model)
        except BaseException:
            self._model.close()
            raise
        self.description = ModelDescription(
            name=prepared.name,
            source=prepared.source,
            backend=NAME,
            kernels=self._model.kernels,
            device="cpu",
            quantization=source.quantization_in_words(),
            compute_dtype="int8/float32",
            parameters=self._model.parameters,
            weight_bytes=self._model.weight_bytes,
            context_window=prepared.context_window,
            kv_bytes_per_token=decoder.kv_bytes_per_token,
            vocab_size=decoder.vocab,
            threads=threads,
            free_bytes=int(psutil.virtual_memory().available),
            eos_token_ids=prepared.eos_token_ids,
        )

    def create_kv(self, tokens: int = 0) -> SequenceKV:
        """An empty KV cache."""
        return _told(self._memory.sequence, tokens)

    def prefill(self, kv: SequenceKV, token_ids: Sequence[int], *, logits: bool) -> Logits | None:
        """Append one chunk; the last token's logits, shape [vocab], when asked for."""
        for start in range(0, len(token_ids), MOST_TOKENS):
            part = token_ids[start : start + MOST_TOKENS]
            last = logits and start + len(part) == len(token_ids)
            rows = _told(self._model.step, [kv], [part], LOGITS_LAST if last else LOGITS_NONE)
        row: Logits | None = rows[0] if logits else None
        return row

    def decode(self, kvs: Sequence[SequenceKV], runs: Sequence[Sequence[int]]) -> Logits:
        """A run of tokens for each sequence; logits of shape [tokens of all runs, vocab]."""
        parts = [_told(self._model.step, some, theirs, LOGITS_ALL) for some, theirs in _steps(kvs, runs)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def truncate(self, kv: SequenceKV, length: int) -> None:
        """Forget all but the first `length` tokens."""
        kv.truncate(length)

    def copy_block(self, kv: SequenceKV, start: int, stop: int) -> NativeKVBlock:
        """A copy of tokens start..stop of `kv`."""
        return _told(self._memory.block, kv, start, stop)

    def move_block(self, kv: SequenceKV, start: int, stop: int) -> NativeKVBlock:
        """The same, and what stands before `stop` is given back, as far as that are whole spans."""
        block = self.copy_block(kv, start, stop)
        kv.give_back(stop)
        return block

    def append_blocks(self, kv: SequenceKV, parts: Sequence[tuple[NativeKVBlock, int]]) -> None:
        """Append the first tokens of some blocks."""
        _told(self._memory.append, kv, parts)

    def block_to_arrays(self, block: NativeKVBlock) -> BlockArrays:
        """The content of a block, to be kept in a file."""
        return self._memory.to_arrays(block)

    def block_from_arrays(self, arrays: BlockArrays) -> NativeKVBlock:
        """The block with this content. Raises ValueError when it cannot be one of this model's."""
        return self._memory.from_arrays(arrays)

    def close(self) -> None:
        """Free the model and end its threads."""
        self._model.close()


def fitting(prepared: PreparedModel) -> tuple[GgufSource | SafetensorsSource, Decoder]:
    """The model's weights and description, if the kernels can run it. Raises `Unfit`; loads nothing."""
    config = read_object(prepared.folder / "config.json")
    decoder = Decoder.from_config(config)
    if prepared.gguf is not None:
        return GgufSource(read_header(prepared.gguf), decoder), decoder
    if config.get("quantization_config"):
        raise Unfit("It is quantized in a way of its own.")
    return SafetensorsSource(prepared, decoder), decoder


def usable_cores() -> int:
    """Physical cores, as far as this process may use them: a second thread a core has no units of its own."""
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return max(1, min(physical, len(os.sched_getaffinity(0))))


def _steps(
    kvs: Sequence[SequenceKV], runs: Sequence[Sequence[int]]
) -> Iterator[tuple[list[SequenceKV], list[Sequence[int]]]]:
    """The same runs in steps of at most MOST_TOKENS tokens, a sequence once in each."""
    some: list[SequenceKV] = []
    theirs: list[Sequence[int]] = []
    for kv, run in zip(kvs, runs, strict=True):
        for start in range(0, len(run), MOST_TOKENS):
            piece = run[start : start + MOST_TOKENS]
            if some and (start or sum(map(len, theirs)) + len(piece) > MOST_TOKENS):
                yield some, theirs
                some, theirs = [], []
            some.append(kv)
            theirs.append(piece)
    yield some, theirs


def _told(action: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call it; Python's own MemoryError becomes the engine's."""
    try:
        return action(*arguments, **options)
    except MemoryError as error:
        raise OutOfMemory(str(error) or "none is left") from error
