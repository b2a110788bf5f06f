"""Matrices in the kernels' memory, from what the `gguf` package quantizes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from gguf import GGMLQuantizationType, dequantize, quantize

FORMATS = {
    GGMLQuantizationType.Q4_0: 0,
    GGMLQuantizationType.Q4_1: 1,
    GGMLQuantizationType.Q8_0: 2,
}


def weights(kind: GGMLQuantizationType, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    """(the blocks of a file, the float32 values that they stand for); magnitudes vary from block to block."""
    noise = np.random.default_rng(rows * 1000 + cols)
    values = noise.standard_normal((rows, cols)) * np.exp(noise.standard_normal((rows, 1)))
    blocks = quantize(values.astype(np.float32), kind)
    return blocks, dequantize(blocks, kind)


@contextmanager
def packed(
    library: ctypes.CDLL,
    kind: GGMLQuantizationType,
    blocks: np.ndarray,
    cols: int,
    order: np.ndarray | None = None,
) -> Iterator[int]:
    """A matrix from blocks that lie at an odd address."""
    unaligned = np.empty(blocks.nbytes + 1, np.uint8)[1:]
    unaligned[:] = blocks.reshape(-1)
    matrix = library.ondol_matrix_pack(
        FORMATS[kind],
        len(blocks),
        cols,
        unaligned.ctypes.data,
        None if order is None else order.ctypes.data,
        None,
    )
    try:
        yield matrix
    finally:
        library.ondol_matrix_free(matrix)
