"""Which of bitsandbytes' CPU kernels a 4-bit layer runs on. Worker thread.

On CPUs with AVX-512 and bfloat16, bitsandbytes repacks a layer's weights at its first call and from then on
uses a fused product that reads 4-bit weights row by row: best for one token, but its time grows with every
further row. For a prefill chunk or a batch it is several times quicker to dequantize the layer once and use
the ordinary product, which needs the weights as they were. So such a layer keeps both, while that costs
little memory.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import bitsandbytes
import torch
from bitsandbytes.functional import has_avx512bf16
from torch import nn

FUSED_ROWS = 2
"""The fused product is quicker up to so many rows (measured on two cores with the default model)."""

SECOND_COPY_BYTES = 2**30
"""A model with more quantized weights than this keeps one copy, and the fused product for everything."""


class TwoKernelLinear(nn.Module):
    """A 4-bit linear layer in both forms: `fused` for few rows, `dequantizing` for many."""

    def __init__(self, layer: bitsandbytes.nn.Linear4bit) -> None:
        super().__init__()
        self.fused = layer
        self.dequantizing = copy.deepcopy(layer)
        self.dequantizing.support_avx512bf16_for_cpu = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [..., in_features]; returns [..., out_features]."""
        rows = x.numel() // x.shape[-1]
        output: torch.Tensor = (self.fused if rows <= FUSED_ROWS else self.dequantizing)(x)
        return output


def choose_kernels(model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Set every 4-bit layer of a model on a CPU to the kernels that suit `dtype`."""
    if device.type != "cpu" or not has_avx512bf16():
        return
    if dtype is torch.float32:
        for _, layer in _linear4bit(model):
            layer.support_avx512bf16_for_cpu = False  # the fused product would compute in bfloat16
        return
    layers = list(_linear4bit(model))
    if sum(layer.weight.nbytes for _, layer in layers) <= SECOND_COPY_BYTES:
        for name, layer in layers:
            parent, _, own_name = name.rpartition(".")
            setattr(model.get_submodule(parent), own_name, TwoKernelLinear(layer))


def _linear4bit(model: nn.Module) -> Iterator[tuple[str, bitsandbytes.nn.Linear4bit]]:
    return (
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, bitsandbytes.nn.Linear4bit)
    )
