"""A layer in two forms computes one thing."""

from __future__ import annotations

import bitsandbytes
import pytest
import torch
from bitsandbytes.functional import dequantize_4bit, has_avx512bf16

from inference.backends.cpu_kernels import FUSED_ROWS, TwoKernelLinear, choose_kernels, expand

OUT, IN = 96, 128


def quantized(dtype: torch.dtype = torch.bfloat16, *, bias: bool = True) -> bitsandbytes.nn.Linear4bit:
    torch.manual_seed(3)
    layer = bitsandbytes.nn.Linear4bit(
        IN, OUT, bias=bias, compute_dtype=dtype, quant_type="nf4", compress_statistics=False
    )
    return layer.to(dtype).to("cpu").requires_grad_(False).eval()


def test_expanded_weights_are_the_quantized_ones() -> None:
    layer = quantized()
    exact = dequantize_4bit(layer.weight.data, layer.weight.quant_state).float()
    # Scale and product are rounded to bfloat16 each: two parts in 2^8 at most.
    torch.testing.assert_close(expand(layer).float(), exact.reshape(OUT, IN), rtol=2 / 256, atol=0)


@pytest.mark.skipif(not has_avx512bf16(), reason="the fused product needs AVX-512 with bfloat16")
@pytest.mark.parametrize("bias", [False, True])
def test_few_rows_and_many_get_the_same_product(bias: bool) -> None:
    layer = quantized(bias=bias)
    weights, offset = expand(layer).float(), layer.bias.float() if bias else torch.zeros(OUT)
    both = TwoKernelLinear(layer)
    x = torch.randn(2, FUSED_ROWS + 5, IN).bfloat16()
    exact = x.float() @ weights.T + offset
    for rows in (1, FUSED_ROWS, FUSED_ROWS + 5):
        with torch.inference_mode():
            torch.testing.assert_close(both(x[:1, :rows]).float(), exact[:1, :rows], rtol=0.02, atol=0.02)
    with torch.inference_mode():
        torch.testing.assert_close(both(x).float(), exact, rtol=0.02, atol=0.02)


@pytest.mark.skipif(not has_avx512bf16(), reason="the fused product needs AVX-512 with bfloat16")
def test_the_bytes_of_the_second_form_are_counted() -> None:
    model = torch.nn.Sequential(quantized(), torch.nn.Linear(OUT, 8))
    assert choose_kernels(model, torch.bfloat16, torch.device("cpu")) == OUT * IN * 2
    assert isinstance(model[0], TwoKernelLinear)
    assert choose_kernels(torch.nn.Sequential(quantized()), torch.float32, torch.device("cpu")) == 0
