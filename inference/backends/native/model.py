"""A model in the kernels' memory: a thin, typed skin over the C functions. Worker thread."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference.backends.base import Logits
from inference.backends.native.decoder import BLOCK, Decoder
from inference.backends.native.kv import SequenceKV
from inference.backends.native.library import (
    BAD_TOKEN,
    BLOCK_BYTES,
    LOGITS_ALL,
    LOGITS_LAST,
    LOGITS_NONE,
    MATRICES,
    MOST_TOKENS,
    OUT_OF_MEMORY,
    VECTORS,
    KVView,
    ModelConfig,
)
from inference.errors import InvalidParams, OutOfMemory


class NativeModel:
    """Owns what the C side allocated, until `close`."""

    def __init__(
        self,
        library: ctypes.CDLL,
        decoder: Decoder,
        threads: int,
        weight_bytes: int = 0,
        kernels: str | None = None,
    ) -> None:
        """weight_bytes: what the matrices will take, for them to lie together."""
        self._library = library
        self._decoder = decoder
        self.weight_bytes = 0
        self.parameters = 0
        frequencies = (ctypes.c_double * len(decoder.frequencies))(*decoder.frequencies)
        config = ModelConfig(
            layers=decoder.layers,
            hidden=decoder.hidden,
            inner=decoder.inner,
            heads=decoder.heads,
            kv_heads=decoder.kv_heads,
            head_dim=decoder.head_dim,
            vocab=decoder.vocab,
            epsilon=decoder.epsilon,
            frequencies=frequencies,
            kernels=kernels.encode() if kernels else None,
            threads=threads,
            weight_bytes=weight_bytes,
        )
        self._model = library.ondol_model_create(config)
        if not self._model:
            raise OutOfMemory(f"{weight_bytes:,} bytes of weights, and {threads} threads")
        self._room = library.ondol_model_room(self._model)

    @property
    def kernels(self) -> str:
        """The name of the kernels that run."""
        return str(self._library.ondol_model_kernels(self._model).decode())

    def pack_matrix(
        self,
        layer: int,
        name: str,
        kind: int,
        shape: tuple[int, ...],
        raw: npt.NDArray[np.uint8],
        order: npt.NDArray[np.int32] | None,
    ) -> None:
        """A matrix of `shape` [rows, cols] from the blocks of a file, row i from its row order[i]."""
        rows, cols = shape
        places = None if order is None else order.ctypes.data
        matrix = self._library.ondol_matrix_pack(kind, rows, cols, raw.ctypes.data, places, self._room)
        self._take(layer, name, matrix, shape, raw.nbytes)

    def quantize_matrix(self, layer: int, name: str, kind: int, values: npt.NDArray[np.float32]) -> None:
        """A matrix from its values, quantized here to NF4 or Q8_0."""
        rows, cols = values.shape
        matrix = self._library.ondol_matrix_quantize(kind, rows, cols, values.ctypes.data, self._room)
        self._take(layer, name, matrix, values.shape, values.size // BLOCK * BLOCK_BYTES[kind])

    def _take(self, layer: int, name: str, matrix: int | None, shape: tuple[int, ...], size: int) -> None:
        if not matrix:
            raise OutOfMemory(f"{size:,} bytes of weights")
        self._keep(layer, name, matrix)
        if name == "embedding" and self._decoder.tied:
            self._keep(layer, "head", matrix)
        self.weight_bytes += size
        self.parameters += shape[0] * shape[1]

    def _keep(self, layer: int, name: str, matrix: int) -> None:
        if self._library.ondol_model_set_matrix(self._model, layer, MATRICES.index(name), matrix):
            raise OutOfMemory("a list of matrices")

    def set_vector(self, layer: int, name: str, values: npt.NDArray[np.float32]) -> None:
        """A norm's weights or a bias."""
        own = np.ascontiguousarray(values, np.float32)
        slot = VECTORS.index(name)
        if self._library.ondol_model_set_vector(self._model, layer, slot, own.ctypes.data, len(own)):
            raise OutOfMemory(f"{own.nbytes:,} bytes of weights")
        self.weight_bytes += own.nbytes
        self.parameters += len(own)

    def step(self, kvs: Sequence[SequenceKV], runs: Sequence[Sequence[int]], want: int) -> Logits:
        """Append run i to cache i, at most MOST_TOKENS together; logits [rows wanted, vocab]."""
        if not self._model:
            raise RuntimeError("the model is closed")
        lengths = [len(run) for run in runs]
        for kv, length in zip(kvs, lengths, strict=True):
            kv.make_room(length)
        views = (KVView * len(kvs))(*(kv.view() for kv in kvs))
        tokens = np.array([token for run in runs for token in run], np.int32)
        rows = {LOGITS_NONE: 0, LOGITS_LAST: len(runs), LOGITS_ALL: len(tokens)}[want]
        logits = np.empty((rows, self._decoder.vocab), np.float32)
        counts = np.array(lengths, np.int32)
        failed = self._library.ondol_step(
            self._model, tokens.ctypes.data, counts.ctypes.data, views, len(kvs), want, logits.ctypes.data
        )
        if failed == OUT_OF_MEMORY:
            raise OutOfMemory(f"working memory for {len(tokens):,} tokens")
        if failed == BAD_TOKEN:
            raise InvalidParams("token", max(tokens.tolist()), f"below {self._decoder.vocab:,}")
        if failed:
            raise ValueError(f"runs of {lengths} tokens do not fit into a step of {MOST_TOKENS}")
        for kv, length in zip(kvs, lengths, strict=True):
            kv.length += length
        return logits

    def close(self) -> None:
        """Free everything, threads included."""
        model, self._model = self._model, None
        if model:
            self._library.ondol_model_free(model)
