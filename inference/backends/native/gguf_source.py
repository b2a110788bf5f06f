"""From a GGUF file's tensors to the kernels' matrices: the same bytes in another order. Worker thread."""

from __future__ import annotations

import mmap
from collections import Counter
from math import prod

import numpy as np
import numpy.typing as npt

from inference.backends.native.decoder import Decoder, Unfit
from inference.backends.native.library import MATRICES, packed_bytes
from inference.backends.native.model import NativeModel
from inference.backends.native.slots import TOP, Slot, check_slots
from inference.models.gguf_header import GgufHeader, TensorInfo

FORMATS = {2: ("Q4_0", 0), 3: ("Q4_1", 1), 8: ("Q8_0", 2)}
"""ggml's type number to its name and the kernels' number."""

F32 = 0
_NAMES = {
    "token_embd": "embedding",
    "output": "head",
    "attn_q": "query",
    "attn_k": "key",
    "attn_v": "value",
    "attn_output": "output",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
}
_NORMS = {
    "output_norm": "final_norm",
    "attn_norm": "attention_norm",
    "ffn_norm": "feed_forward_norm",
    "attn_q_norm": "query_norm",
    "attn_k_norm": "key_norm",
}
ROPE_FACTORS = "rope_freqs.weight"


class GgufSource:
    """What a file holds, checked against what the decoder needs. Raises `Unfit`."""

    def __init__(self, header: GgufHeader, decoder: Decoder) -> None:
        self._path = header.path
        self._decoder = decoder
        found = (tensor for name, tensor in header.tensors.items() if name != ROPE_FACTORS)
        self._tensors = {_slot(tensor.name): tensor for tensor in found}
        for slot, tensor in self._tensors.items():
            if tensor.kind not in (FORMATS if slot.name in MATRICES else (F32,)):
                readable = ", ".join(name for name, _ in FORMATS.values())
                raise Unfit(f"{tensor.name} is stored as {type_name(tensor.kind)}; it runs {readable}.")
        check_slots({slot: tensor.shape for slot, tensor in self._tensors.items()}, decoder)

    @property
    def packed_bytes(self) -> int:
        """What its matrices will take."""
        return sum(
            packed_bytes(FORMATS[tensor.kind][1], tensor.shape)
            for slot, tensor in self._tensors.items()
            if slot.name in MATRICES
        )

    def load(self, model: NativeModel) -> None:
        """Give every tensor to the model. Of the file, one at a time is in this process's memory."""
        with self._path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            for slot, tensor in self._tensors.items():
                raw = np.frombuffer(mapped, np.uint8, tensor.size, tensor.offset)
                order = _row_order(slot, tensor, self._decoder)
                if slot.name in MATRICES:
                    kind = FORMATS[tensor.kind][1]
                    model.pack_matrix(slot.layer, slot.name, kind, tensor.shape, raw, order)
                else:
                    values = raw.view("<f4").copy()
                    model.set_vector(slot.layer, slot.name, values if order is None else values[order])
                del raw  # the mapping cannot be closed while something looks at it
                _let_go(mapped, tensor)

    def quantization_in_words(self) -> str:
        """Such as "Q4_1 in blocks of 32, as in the file: 106 of 135 million weights; the others in Q8_0"."""
        counts: Counter[str] = Counter()
        for slot, tensor in self._tensors.items():
            if slot.name in MATRICES:
                counts[FORMATS[tensor.kind][0]] += prod(tensor.shape)
        total = f"{counts.total() / 1e6:,.0f} million weights"
        (most, count), *others = counts.most_common()
        if not others:
            return f"{most} in blocks of 32, as in the file: {total}"
        names = ", ".join(name for name, _ in others)
        return f"{most} in blocks of 32, as in the file: {count / 1e6:,.0f} of {total}; the others in {names}"


def _let_go(mapped: mmap.mmap, tensor: TensorInfo) -> None:
    """The kernel's own cache keeps the file; only this process's share of it ends."""
    if hasattr(mmap, "MADV_DONTNEED"):
        start = tensor.offset // mmap.PAGESIZE * mmap.PAGESIZE
        mapped.madvise(mmap.MADV_DONTNEED, start, tensor.offset + tensor.size - start)


def type_name(kind: int) -> str:
    """ggml's name of a type."""
    from gguf import GGMLQuantizationType

    return str(GGMLQuantizationType(kind).name)


def _slot(name: str) -> Slot:
    stem, _, kind = name.rpartition(".")
    layer, part = TOP, stem
    if stem.startswith("blk."):
        _, number, part = stem.split(".", 2)
        layer = int(number)
    found = _NORMS.get(part) or _NAMES.get(part)
    if found is None or kind not in ("weight", "bias"):
        raise Unfit(f"The tensor {name} is not known.")
    return Slot(layer, found if kind == "weight" else f"{found}_bias")


def _row_order(slot: Slot, tensor: TensorInfo, decoder: Decoder) -> npt.NDArray[np.int32] | None:
    """Rows of q and k of llama-architecture files are interleaved in each head, (0, half), (1, half + 1), …:
    here the order is that of transformers, first all firsts.
    """
    if not decoder.permuted or not slot.name.startswith(("query", "key")):
        return None
    rows = np.arange(tensor.shape[0], dtype=np.int32).reshape(-1, decoder.head_dim // 2, 2)
    return np.ascontiguousarray(rows.swapaxes(1, 2).reshape(-1))
