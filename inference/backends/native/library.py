"""The compiled kernels: found beside this file, checked against their sources, and typed for ctypes."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from inference.backends.native.sources import source_hash

MOST_TOKENS = 256
"""Rows of one step, as `ondol.h` says."""

SPAN = 128
"""Tokens of a chunk of a running sequence's keys and values, as `kernels.h` says."""

Q4_0, Q4_1, Q8_0, NF4 = range(4)
BLOCK_BYTES = {Q4_0: 18, Q4_1: 20, Q8_0: 34, NF4: 18}
"""Formats, as in `blocks.h`, and what 32 weights take in each."""

GROUP = 16

LOGITS_NONE, LOGITS_LAST, LOGITS_ALL = range(3)
OUT_OF_MEMORY, BAD_TOKEN = 1, 2

MATRICES = ("embedding", "head", "query", "key", "value", "output", "gate", "up", "down")
VECTORS = (
    "final_norm",
    "attention_norm",
    "feed_forward_norm",
    "query_norm",
    "key_norm",
    "query_bias",
    "key_bias",
    "value_bias",
    "output_bias",
    "gate_bias",
    "up_bias",
    "down_bias",
)
"""Names of `enum matrix_slot` and `enum vector_slot`, in their order."""


class NativeUnavailable(Exception):
    """There are no kernels that could be used; the message says why in one sentence."""


class ModelConfig(ctypes.Structure):
    """`model_config` in ondol.h."""

    _fields_ = [
        *(
            (name, c_int32)
            for name in ("layers", "hidden", "inner", "heads", "kv_heads", "head_dim", "vocab")
        ),
        ("epsilon", c_float),
        ("frequencies", POINTER(c_double)),
        ("kernels", c_char_p),
        ("threads", c_int32),
        ("weight_bytes", c_size_t),
    ]


class KVView(ctypes.Structure):
    """`kv_view` in ondol.h."""

    _fields_ = [("data", c_void_p), ("chunk", c_int64), ("length", c_int64)]


class KVShape(ctypes.Structure):
    """`kv_shape` in ondol.h."""

    _fields_ = [("layers", c_int32), ("kv_heads", c_int32), ("head_dim", c_int32)]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "ondol_source_hash": (c_char_p, []),
    "ondol_kernels_name": (c_char_p, [c_char_p]),
    "ondol_matrix_pack": (c_void_p, [c_int, c_int, c_int, c_void_p, c_void_p, c_void_p]),
    "ondol_matrix_quantize": (c_void_p, [c_int, c_int, c_int, c_void_p, c_void_p]),
    "ondol_matrix_free": (None, [c_void_p]),
    "ondol_matrix_row": (None, [c_void_p, c_int, c_void_p]),
    "ondol_model_create": (c_void_p, [POINTER(ModelConfig)]),
    "ondol_model_free": (None, [c_void_p]),
    "ondol_model_set_matrix": (c_int, [c_void_p, c_int, c_int, c_void_p]),
    "ondol_model_set_vector": (c_int, [c_void_p, c_int, c_int, c_void_p, c_int]),
    "ondol_model_room": (c_void_p, [c_void_p]),
    "ondol_model_kernels": (c_char_p, [c_void_p]),
    "ondol_step": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p]),
    "ondol_kv_copy": (
        None,
        [POINTER(KVShape), POINTER(KVView), c_int64, POINTER(KVView), c_int64, c_int64],
    ),
    "ondol_test_multiply": (c_int, [c_char_p, c_void_p, c_void_p, c_int, c_void_p]),
    "ondol_test_attend": (
        c_int,
        [c_char_p, c_void_p, c_void_p, c_int, c_int, POINTER(KVView), c_void_p],
    ),
    "ondol_test_row": (c_int, [c_char_p, c_int, c_void_p, c_void_p, c_int, c_float]),
}


PLAIN = "plain C"
"""The name of the kernels that run on any CPU, slowly."""


def packed_bytes(kind: int, shape: tuple[int, ...]) -> int:
    """What a matrix of `shape` [rows, cols] takes in the kernels' memory: whole groups of rows."""
    rows, cols = shape
    return -(-rows // GROUP) * GROUP * (cols // 32) * BLOCK_BYTES[kind] + 64


def fastest_kernels() -> str:
    """The name of the kernels that this CPU runs. Raises `NativeUnavailable`."""
    return str(load_library().ondol_kernels_name(None).decode())


def load_library(folder: Path = Path(__file__).parent) -> ctypes.CDLL:
    """The library in `folder`. Raises `NativeUnavailable`: it was not compiled, or from other sources.

    Every call of its functions releases the interpreter's lock.
    """
    found = sorted(folder.glob("_kernels*.so"))
    if not found:
        raise NativeUnavailable(
            "The native kernels are not compiled: install a C compiler (gcc) and install Ondol again."
        )
    try:
        library = ctypes.CDLL(str(found[0]))
        library.ondol_source_hash.restype = c_char_p
        stale = library.ondol_source_hash().decode() != source_hash()
    except (OSError, AttributeError) as error:
        raise NativeUnavailable(
            f"The native kernels cannot be loaded ({error}): install Ondol again."
        ) from error
    if stale:
        raise NativeUnavailable("The native kernels were compiled from other sources: install Ondol again.")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
