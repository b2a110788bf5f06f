"""The weights of a GGUF file as transformers names and orders them, one float32 array at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from inference.errors import ModelUnusable
from inference.models.gguf_header import GgufHeader, TensorInfo, read_header

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray: TypeAlias = npt.NDArray[np.float32]

ROPE_FACTORS = "rope_freqs.weight"
"""A tensor that belongs in the configuration; it is no parameter of the model."""

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_QWEN3_LAYER = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


def hf_name(gguf_name: str, arch: str) -> str:
    """The name in transformers, such as "blk.3.attn_q.bias" → "model.layers.3.self_attn.q_proj.bias".

    Raises ModelUnusable for a name that `arch` ("llama", "qwen2", "qwen3") does not have.
    """
    layer = {**_LAYER, **(_QWEN3_LAYER if arch == "qwen3" else {})}
    stem, _, kind = gguf_name.rpartition(".")
    if kind in ("weight", "bias"):
        if stem in _TOP and kind == "weight":
            return f"{_TOP[stem]}.weight"
        block, _, rest = stem.partition(".")
        index, _, part = rest.partition(".")
        if block == "blk" and index.isdecimal() and part in layer:
            return f"model.layers.{index}.{layer[part]}.{kind}"
    raise ModelUnusable(f"The GGUF tensor {gguf_name!r:.80} is not known for architecture {arch!r}.")


def check_tensors(header: GgufHeader, layers: int) -> None:
    """Raise ModelUnusable unless all tensors are known, readable, and there for each of `layers` layers."""
    arch = header.architecture
    for name in header.tensors:
        if name != ROPE_FACTORS:
            hf_name(name, arch)
    parts = [*_LAYER, *(_QWEN3_LAYER if arch == "qwen3" else ())]
    needed = chain(
        ("token_embd.weight", "output_norm.weight"),
        (f"blk.{index}.{part}.weight" for index in range(layers) for part in parts),
    )
    missing = next((name for name in needed if name not in header.tensors), None)
    if missing is not None:
        raise ModelUnusable(f"{header.path.name} lacks the tensor {missing}. Fetch it again.")
    for kind in {tensor.kind for tensor in header.tensors.values()}:
        _check_readable(kind, header.path.name)


def _check_readable(kind: int, where: str) -> None:
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    ggml_type = GGMLQuantizationType(kind)
    block_bytes = GGML_QUANT_SIZES[ggml_type][1]
    try:
        dequantize(np.zeros((1, block_bytes), np.uint8), ggml_type)
    except NotImplementedError:
        raise ModelUnusable(f"{where} has weights of type {ggml_type.name}, which cannot be read.") from None


def read_tensor(data: npt.NDArray[np.uint8], tensor: TensorInfo) -> FloatArray:
    """`tensor` out of the file's bytes `data`, dequantized: float32, of its shape, not shared with `data`."""
    import numpy as np
    from gguf import GGMLQuantizationType, dequantize, quant_shape_to_byte_shape

    ggml_type = GGMLQuantizationType(tensor.kind)
    raw = data[tensor.offset : tensor.offset + tensor.size]
    if ggml_type.name not in ("F32", "F16"):
        raw = raw.reshape(quant_shape_to_byte_shape(tensor.shape, ggml_type))
    values = dequantize(raw, ggml_type).reshape(tensor.shape)
    return np.require(values, np.float32, ["C_CONTIGUOUS", "WRITEABLE"])


def read_rope_factors(header: GgufHeader) -> list[float] | None:
    """The values of rope_freqs.weight, if the file has them."""
    import numpy as np

    tensor = header.tensors.get(ROPE_FACTORS)
    if tensor is None:
        return None
    values: list[float] = read_tensor(np.memmap(header.path, np.uint8, "r"), tensor).tolist()
    return values


def read_state_dict(gguf: Path) -> Iterator[tuple[str, FloatArray]]:
    """(name in transformers, float32 weights) of every parameter, in the file's order.

    llama.cpp's conversion stores the rows of q and k of llama-architecture models interleaved, for its form
    of RoPE; here they are put back (`LlamaModel.permute` in llama.cpp's conversion script). Qwen's are stored
    as they are. Arrays are writable, contiguous and not shared. Raises ModelUnusable.
    """
    import numpy as np

    header = read_header(gguf)
    arch = header.architecture
    heads = header.integer(f"{arch}.attention.head_count")
    key_heads = header.integer(f"{arch}.attention.head_count_kv", heads)
    interleaved = {"attn_q": heads, "attn_k": key_heads} if arch == "llama" else {}
    data = np.memmap(gguf, np.uint8, "r")
    for tensor in header.tensors.values():
        if tensor.name == ROPE_FACTORS:
            continue
        weights = read_tensor(data, tensor)
        part = tensor.name.split(".")[-2]
        if part in interleaved:
            weights = _rows_in_halves(weights, interleaved[part])
        yield hf_name(tensor.name, arch), weights


def _rows_in_halves(weights: FloatArray, heads: int) -> FloatArray:
    """Within each head, rows 0, 2, 4, … first and then 1, 3, 5, …: the order of transformers' rotate_half."""
    import numpy as np

    rows = weights.shape[0]
    pairs = weights.reshape(heads, rows // heads // 2, 2, *weights.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weights.shape)
