"""Which of the CPU kernels at hand a 4-bit layer runs on. Worker thread.

On CPUs with AVX-512 and bfloat16, bitsandbytes repacks a layer's weights at its first call and from then on
uses a fused product that reads 4-bit weights row by row: best for one token, but its time grows with every
further row. For a prefill chunk or a batch it is several times quicker to have the weights in bfloat16 and
use oneDNN's product. Expanding them anew at every step costs as much as the rest of the step, so a small
model keeps them expanded beside the 4-bit ones: the same numbers, twice.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import bitsandbytes
import torch
from bitsandbytes.functional import dequantize_4bit, has_avx512bf16
from torch import nn

FUSED_ROWS = 2
"""The fused product is quicker up to so many rows (measured on two cores with the default model)."""

EXPANDED_BYTES = 2**30
"""A model whose expanded weights would take more than this keeps the 4-bit ones only."""

PACKED_FOR_ROWS = 32
"""oneDNN lays the weights out for batches and short prompts, where laying them out anew would cost most."""


class TwoKernelLinear(nn.Module):
    """A 4-bit linear layer in both forms: `fused` for few rows, expanded to bfloat16 for many."""

    def __init__(self, layer: bitsandbytes.nn.Linear4bit) -> None:
        super().__init__()
        self.fused = layer
        expanded = expand(layer)
        self.expanded_bytes = expanded.nbytes
        # An opaque tensor in oneDNN's own layout, made and read by the two operators that torch's compiler
        # uses for it; a module has no other way to them.
        self._expanded = torch.ops.mkldnn._reorder_linear_weight(expanded, PACKED_FOR_ROWS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [..., in_features]; returns [..., out_features]."""
        if x.numel() <= FUSED_ROWS * x.shape[-1]:
            output: torch.Tensor = self.fused(x)
        else:
            output = torch.ops.mkldnn._linear_pointwise(x, self._expanded, self.fused.bias, "none", [], "")
        return output


def expand(layer: bitsandbytes.nn.Linear4bit) -> torch.Tensor:
    """The weights of a layer as the fused product sees them, [out_features, in_features] in bfloat16.

    It rounds the scale of each block to bfloat16; so does this, or one token and many would be computed by
    slightly different models.
    """
    state = copy.copy(layer.weight.quant_state)
    if not state.nested:
        state.absmax = state.absmax.bfloat16().float()
    state.dtype = torch.bfloat16
    weights: torch.Tensor = dequantize_4bit(layer.weight.data, state)
    return weights.reshape(layer.out_features, layer.in_features)


def choose_kernels(model: nn.Module, dtype: torch.dtype, device: torch.device) -> int:
    """Set every 4-bit layer of a model on a CPU to the kernels that suit `dtype`; the bytes that this adds
    to the weights.
    """
    if device.type != "cpu" or not has_avx512bf16():
        return 0
    layers = list(_linear4bit(model))
    if dtype is torch.float32:
        for _, layer in layers:
            layer.support_avx512bf16_for_cpu = False  # the fused product would compute in bfloat16
    elif sum(4 * layer.weight.nbytes for _, layer in layers) <= EXPANDED_BYTES:
        for name, layer in layers:
            parent, _, own_name = name.rpartition(".")
            setattr(model.get_submodule(parent), own_name, TwoKernelLinear(layer))
    return sum(module.expanded_bytes for module in model.modules() if isinstance(module, TwoKernelLinear))


def _linear4bit(model: nn.Module) -> Iterator[tuple[str, bitsandbytes.nn.Linear4bit]]:
    return (
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, bitsandbytes.nn.Linear4bit)
    )
