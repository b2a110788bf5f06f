"""Every kernel against numpy in float64, within bounds that are stated here."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit
from gguf import GGMLQuantizationType

from inference.backends.native.library import NF4, SPAN, KVView
from tests.inference.backends.native.packing import FORMATS, packed, weights

ROUNDING = 1e-5
"""Of the sum of magnitudes: float32 sums of up to a few thousand terms."""


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_a_packed_matrix_holds_exactly_what_the_gguf_package_reads(
    library: ctypes.CDLL, kind: GGMLQuantizationType, rows: int
) -> None:
    blocks, values = weights(kind, rows, 96)
    order = np.random.default_rng(0).permutation(rows).astype(np.int32)
    found = np.empty((rows, 96), np.float32)
    with packed(library, kind, blocks, 96, order) as matrix:
        for row in range(rows):
            library.ondol_matrix_row(matrix, row, found[row].ctypes.data)
    np.testing.assert_array_equal(found, values[order])


def multiply(library: ctypes.CDLL, kernels: bytes, matrix: int, x: np.ndarray, rows: int) -> np.ndarray:
    x = np.ascontiguousarray(x, np.float32)
    out = np.empty((len(x), rows), np.float32)
    assert library.ondol_test_multiply(kernels, matrix, x.ctypes.data, len(x), out.ctypes.data) == 0
    return out


def inputs(count: int, cols: int) -> np.ndarray:
    noise = np.random.default_rng(count + cols)
    x = noise.standard_normal((count, cols)) * np.exp(
        2 * noise.standard_normal((count, cols // 32)).repeat(32, 1)
    )
    x[:, :32] = 0  # a block of nothing
    return x.astype(np.float32)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("rows", "cols", "count"), [(1, 32, 1), (16, 64, 3), (50, 608, 13), (33, 2048, 8)])
def test_a_product_is_within_half_a_step_of_its_activations(
    library: ctypes.CDLL, kernels: bytes, kind: GGMLQuantizationType, rows: int, cols: int, count: int
) -> None:
    """Activations are rounded to 127 steps either way of their block's largest: half a step off at most."""
    blocks, values = weights(kind, rows, cols)
    x = inputs(count, cols)
    with packed(library, kind, blocks, cols) as matrix:
        found = multiply(library, kernels, matrix, x, rows)
    exact = x.astype(np.float64) @ values.T.astype(np.float64)
    steps = np.abs(x.reshape(count, -1, 32)).max(-1).repeat(32, 1) / 127
    magnitudes = np.abs(values.T.astype(np.float64))
    bound = (steps / 2 * (1 + 1e-5)) @ magnitudes + ROUNDING * (np.abs(x) @ magnitudes)
    assert (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_row_of_a_product_does_not_depend_on_the_rows_beside_it(
    library: ctypes.CDLL, kernels: bytes, kind: GGMLQuantizationType
) -> None:
    blocks, _ = weights(kind, 40, 320)
    x = inputs(23, 320)
    with packed(library, kind, blocks, 320) as matrix:
        alone = np.concatenate([multiply(library, kernels, matrix, row[None], 40) for row in x])
        for count in range(1, len(x) + 1):
            np.testing.assert_array_equal(multiply(library, kernels, matrix, x[:count], 40), alone[:count])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_does_not_get_lost(library: ctypes.CDLL, kernels: bytes, bad: float) -> None:
    kind = GGMLQuantizationType.Q4_1
    blocks, _ = weights(kind, 16, 64)
    x = inputs(2, 64)
    x[1, 40] = bad
    with packed(library, kind, blocks, 64) as matrix:
        found = multiply(library, kernels, matrix, x, 16)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()


def kept(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """One head's keys and values [tokens, dim] as a running sequence keeps them, and NaN beyond."""
    tokens, dim = keys.shape
    chunks = -(-tokens // SPAN)
    padded = np.full((2, chunks * SPAN, dim), 0x7E00, np.uint16)
    padded[0, :tokens], padded[1, :tokens] = keys.view(np.uint16), values.view(np.uint16)
    tiled = padded[0].reshape(chunks, SPAN // 16, 16, dim).swapaxes(2, 3).reshape(chunks, SPAN, dim)
    return np.ascontiguousarray(np.stack([tiled, padded[1].reshape(chunks, SPAN, dim)], axis=1))


def attend(
    library: ctypes.CDLL,
    kernels: bytes,
    queries: np.ndarray,
    lengths: list[int],
    memory: np.ndarray,
    tokens: int,
) -> np.ndarray:
    queries = np.ascontiguousarray(queries)
    seen = np.array(lengths, np.int32)
    out = np.empty_like(queries)
    view = KVView(memory.ctypes.data, SPAN, tokens)
    failed = library.ondol_test_attend(
        kernels,
        queries.ctypes.data,
        seen.ctypes.data,
        len(queries),
        queries.shape[1],
        ctypes.byref(view),
        out.ctypes.data,
    )
    assert failed == 0
    return out


@pytest.mark.parametrize("dim", [16, 64, 80, 128])
@pytest.mark.parametrize("count", [1, 3, 5, 29])
def test_attention_is_exact_and_the_same_alone_and_beside_others(
    library: ctypes.CDLL, kernels: bytes, dim: int, count: int
) -> None:
    noise = np.random.default_rng(dim + count)
    tokens = 300
    keys, values = (noise.standard_normal((tokens, dim)).astype(np.float16) for _ in range(2))
    queries = noise.standard_normal((count, dim)).astype(np.float32) * np.float32(0.7)
    lengths = sorted(int(n) for n in noise.integers(1, tokens + 1, count))
    memory = kept(keys, values)
    found = attend(library, kernels, queries, lengths, memory, max(lengths))
    for query, length, row in zip(queries, lengths, found, strict=True):
        scores = keys[:length].astype(np.float64) @ query.astype(np.float64)
        shares = np.exp(scores - scores.max())
        expected = shares @ values[:length].astype(np.float64) / shares.sum()
        np.testing.assert_allclose(row, expected, atol=1e-5)
        alone = attend(library, kernels, query[None], [length], memory, length)
        np.testing.assert_array_equal(row, alone[0])


def row_kernel(
    library: ctypes.CDLL, kernels: bytes, what: int, x: np.ndarray, other: np.ndarray
) -> np.ndarray:
    out, other = x.astype(np.float32), np.ascontiguousarray(other, np.float32)
    failed = library.ondol_test_row(kernels, what, out.ctypes.data, other.ctypes.data, len(out), 1e-5)
    assert failed == 0
    return out


@pytest.mark.parametrize("count", [16, 80, 576])
def test_norms_gates_and_rotations_are_exact(library: ctypes.CDLL, kernels: bytes, count: int) -> None:
    noise = np.random.default_rng(count)
    x, other = noise.standard_normal(count) * 5, noise.standard_normal(count)
    x[:4] = (-200, -90, 90, 200)
    normed = x / np.sqrt((x**2).mean() + 1e-5) * other
    np.testing.assert_allclose(row_kernel(library, kernels, 0, x, other), normed, rtol=1e-5)
    with np.errstate(over="ignore"):
        gated = x / (1 + np.exp(-x)) * other
    np.testing.assert_allclose(row_kernel(library, kernels, 1, x, other), gated, rtol=1e-5, atol=1e-30)
    half = count // 2
    angles = noise.uniform(-3, 3, half)
    turned = (x[:half] + 1j * x[half:]) * np.exp(1j * angles)
    table = np.concatenate([np.cos(angles), np.sin(angles)])
    found = row_kernel(library, kernels, 2, x, table)
    np.testing.assert_allclose(found, np.concatenate([turned.real, turned.imag]), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("rows", "cols"), [(5, 64), (37, 160)])
def test_nf4_is_bitsandbytes_own_but_for_its_whole_numbered_values(
    library: ctypes.CDLL, kernels: bytes, rows: int, cols: int
) -> None:
    values = np.random.default_rng(cols).standard_normal((rows, cols)).astype(np.float32)
    largest = np.zeros_like(values)
    expected = np.zeros_like(values)
    for start in range(0, cols, 64):
        part = torch.from_numpy(values[:, start : start + 64].copy())
        width = part.shape[1]
        packed_part, state = quantize_4bit(part, blocksize=64 if width == 64 else 32, quant_type="nf4")
        expected[:, start : start + 64] = dequantize_4bit(packed_part, state).numpy()
        largest[:, start : start + 64] = part.abs().max(1, keepdim=True).values.numpy()
    matrix = library.ondol_matrix_quantize(NF4, rows, cols, values.ctypes.data, None)
    found = np.empty_like(values)
    for row in range(rows):
        library.ondol_matrix_row(matrix, row, found[row].ctypes.data)
    assert (np.abs(found - expected) <= largest * (0.5 / 127 + 2**-11)).all()
    x = inputs(3, cols)
    product = multiply(library, kernels, matrix, x, rows)
    library.ondol_matrix_free(matrix)
    steps = np.abs(x.reshape(3, -1, 32)).max(-1).repeat(32, 1) / 127
    magnitudes = np.abs(found.T.astype(np.float64))
    bound = (steps / 2 * (1 + 1e-5)) @ magnitudes + ROUNDING * (np.abs(x) @ magnitudes)
    assert (np.abs(product - x.astype(np.float64) @ found.T) <= bound).all()
