"""The weights of a safetensors folder, quantized as they are read: to NF4, and what should lose less to Q8_0.

NF4's sixteen values are kept as whole 127ths, so that products are of whole numbers: each is off by at most
1/254 of its block's largest weight, where NF4 itself is off by up to 0.15 of it. Worker thread.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from inference.backends.native.decoder import Decoder, Unfit
from inference.backends.native.library import MATRICES, NF4, Q8_0, packed_bytes
from inference.backends.native.model import NativeModel
from inference.backends.native.slots import TOP, Slot, check_slots
from inference.models.prepared import PreparedModel
from inference.models.safetensors_files import weight_files

_VALUE_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_TOP = {"model.embed_tokens": "embedding", "model.norm": "final_norm", "lm_head": "head"}
_LAYER = {
    "input_layernorm": "attention_norm",
    "self_attn.q_proj": "query",
    "self_attn.k_proj": "key",
    "self_attn.v_proj": "value",
    "self_attn.o_proj": "output",
    "self_attn.q_norm": "query_norm",
    "self_attn.k_norm": "key_norm",
    "post_attention_layernorm": "feed_forward_norm",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file. kind: a safetensors dtype. start: its first byte in the file."""

    file: Path
    name: str
    kind: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * _VALUE_BYTES[self.kind]


class SafetensorsSource:
    """What a folder holds, checked against what the decoder needs. Raises `Unfit`."""

    def __init__(self, prepared: PreparedModel, decoder: Decoder) -> None:
        self._eight_bit = prepared.keep_full_precision
        self._tensors = {_slot(tensor.name): tensor for tensor in _stored(prepared.folder)}
        if decoder.tied:
            self._tensors.pop(Slot(TOP, "head"), None)
        check_slots({slot: tensor.shape for slot, tensor in self._tensors.items()}, decoder)

    @property
    def packed_bytes(self) -> int:
        """What its matrices will take."""
        return sum(
            packed_bytes(self._format(slot, tensor), tensor.shape)
            for slot, tensor in self._tensors.items()
            if slot.name in MATRICES
        )

    def load(self, model: NativeModel) -> None:
        """Give every tensor to the model, one at a time in memory."""
        for slot, tensor in self._tensors.items():
            values = _read(tensor)
            if slot.name in MATRICES:
                model.quantize_matrix(slot.layer, slot.name, self._format(slot, tensor), values)
            else:
                model.set_vector(slot.layer, slot.name, values)

    def quantization_in_words(self) -> str:
        """Such as "NF4 in blocks of 64: 100 of 135 million weights; the others in Q8_0"."""
        counts: Counter[int] = Counter()
        for slot, tensor in self._tensors.items():
            if slot.name in MATRICES:
                counts[self._format(slot, tensor)] += prod(tensor.shape)
        total = f"{counts.total() / 1e6:,.0f} million weights"
        return f"NF4 in blocks of 64: {counts[NF4] / 1e6:,.0f} of {total}; the others in Q8_0"

    def _format(self, slot: Slot, tensor: StoredTensor) -> int:
        kept = slot.layer == TOP or any(f".{name}." in tensor.name for name in self._eight_bit)
        return Q8_0 if kept else NF4


def _stored(folder: Path) -> Iterator[StoredTensor]:
    for file in weight_files(folder):
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header: Mapping[str, Any] = json.loads(stream.read(length))
        size = file.stat().st_size
        for name, entry in header.items():
            if name == "__metadata__" or name.endswith(".rotary_emb.inv_freq"):
                continue
            kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if kind not in _VALUE_BYTES:
                raise Unfit(f"{name} is stored as {kind}.")
            tensor = StoredTensor(file, name, kind, shape, 8 + length + start)
            if not 0 <= start <= end or end - start != tensor.size or 8 + length + end > size:
                raise Unfit(f"{name} does not lie where {file.name} says.")
            yield tensor


def _read(tensor: StoredTensor) -> npt.NDArray[np.float32]:
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.start)
        raw = np.frombuffer(stream.read(tensor.size), np.uint8)
    if tensor.kind == "BF16":  # the upper half of a float32
        values = (raw.view("<u2").astype("<u4") << 16).view("<f4")
    else:
        values = raw.view("<f2" if tensor.kind == "F16" else "<f4").astype(np.float32)
    return np.ascontiguousarray(values, np.float32).reshape(tensor.shape)


def _slot(name: str) -> Slot:
    stem, _, kind = name.rpartition(".")
    layer, found = TOP, _TOP.get(stem)
    if stem.startswith("model.layers."):
        number, _, part = stem.removeprefix("model.layers.").partition(".")
        layer, found = (int(number) if number.isdecimal() else TOP), _LAYER.get(part)
    if found is None or kind not in ("weight", "bias"):
        raise Unfit(f"The tensor {name} is not known.")
    return Slot(layer, found if kind == "weight" else f"{found}_bias")
