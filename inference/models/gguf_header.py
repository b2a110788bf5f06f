"""The header of a GGUF file: metadata and where each tensor lies, checked against the file's length.

Every count and length is compared with the bytes that are left before it is believed, so a damaged or hostile
file costs no more than its own size. Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
(little-endian, versions 2 and 3).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

from inference.errors import ModelUnusable

Value: TypeAlias = int | float | bool | str | tuple[Any, ...]

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 8: (32, 34)}
"""Values and bytes of a block of F32, F16, Q4_0, Q4_1 and Q8_0: what is usual needs no library."""

_MOST_DIMENSIONS = 4
_SMALLEST_FILE = 24


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """shape: rows first, as numpy has it. kind: ggml's type number. offset, size: bytes in the file."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata by its full key, and the tensors by name."""

    path: Path
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    def integer(self, key: str, default: int | None = None) -> int:
        """The integer at `key`; ModelUnusable when it is something else, or missing without a default."""
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._bad(key, "a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._bad(key, "a number")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        value = self.metadata.get(key, default)
        if not isinstance(value, str):
            raise self._bad(key, "a text")
        return value

    def items(self, key: str) -> tuple[Any, ...]:
        value = self.metadata.get(key)
        if not isinstance(value, tuple):
            raise self._bad(key, "a list")
        return value

    def _bad(self, key: str, kind: str) -> ModelUnusable:
        return ModelUnusable(
            f"{self.path.name} should have {kind} at {key}; it has {self.metadata.get(key)!r:.60}."
        )


def read_header(path: Path) -> GgufHeader:
    """Read and check the header. ModelUnusable when it is damaged, cut short or of another kind."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        if size < _SMALLEST_FILE or stream.read(4) != b"GGUF":
            raise ModelUnusable(f"{path} is no GGUF file: it does not begin with the letters GGUF.")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Cursor(path, data, size).header()


class _Cursor:
    """A position in the mapped file, moved by every read."""

    def __init__(self, path: Path, data: mmap.mmap, size: int) -> None:
        self._path = path
        self._data = data
        self._size = size
        self._at = 4

    def header(self) -> GgufHeader:
        version = self._number("I")
        if version not in (2, 3):
            raise ModelUnusable(
                f"{self._path.name} is GGUF version {version}; 2 and 3 (little-endian) can be read."
            )
        tensor_count, value_count = self._number("Q"), self._number("Q")
        metadata: dict[str, Value] = {}
        for _ in range(value_count):
            key = self._string()
            metadata[key] = self._value(self._number("I"))
        entries = [self._tensor_entry() for _ in range(tensor_count)]
        return GgufHeader(self._path, metadata, self._placed(entries, metadata))

    def _placed(
        self, entries: list[tuple[str, tuple[int, ...], int, int]], metadata: dict[str, Value]
    ) -> dict[str, TensorInfo]:
        """Tensor data begins at the next multiple of the alignment; offsets count from there."""
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._damaged(f"its alignment is {alignment!r}")
        start = -(-self._at // alignment) * alignment
        tensors = {
            name: TensorInfo(name, shape, kind, start + offset, self._byte_size(name, shape, kind))
            for name, shape, kind, offset in entries
        }
        end = max((tensor.offset + tensor.size for tensor in tensors.values()), default=start)
        if end > self._size:
            raise ModelUnusable(
                f"{self._path.name} has {self._size:,} bytes, but its header describes {end:,}. It was cut "
                "short; fetch it again."
            )
        return tensors

    def _byte_size(self, name: str, shape: tuple[int, ...], kind: int) -> int:
        try:
            block, block_bytes = _BLOCKS.get(kind) or _block_of_another(kind)
        except (ValueError, KeyError):
            raise ModelUnusable(
                f"{self._path.name} keeps {name} in ggml type {kind}, which cannot be read."
            ) from None
        if shape[-1] % block:
            raise self._damaged(f"{name} has rows of {shape[-1]:,} values, no multiple of {block}")
        return prod(shape) // block * block_bytes

    def _tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        count = self._number("I")
        if not 1 <= count <= _MOST_DIMENSIONS:
            raise self._damaged(f"{name!r:.60} has {count:,} dimensions")
        shape = tuple(reversed(self._numbers("Q", count)))
        return name, shape, self._number("I"), self._number("Q")

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._string()
        if kind in _SCALARS:
            return self._numbers(_SCALARS[kind], 1)[0]  # type: ignore[no-any-return]
        if kind != _ARRAY:
            raise self._damaged(f"there is no value type {kind}")
        item, count = self._number("I"), self._number("Q")
        if item == _STRING:
            self._need(8 * count)
            return tuple(self._string() for _ in range(count))
        if item not in _SCALARS:
            raise self._damaged(f"it has a list of value type {item}")
        return self._numbers(_SCALARS[item], count)

    def _string(self) -> str:
        length = self._number("Q")
        self._need(length)
        raw = self._data[self._at : self._at + length]
        self._at += length
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._damaged(f"a text is not UTF-8 ({error})") from error

    def _number(self, code: str) -> int:
        return int(self._numbers(code, 1)[0])

    def _numbers(self, code: str, count: int) -> tuple[Any, ...]:
        self._need(struct.calcsize(f"<{code}") * count)
        format_ = f"<{count}{code}"
        values = struct.unpack_from(format_, self._data, self._at)
        self._at += struct.calcsize(format_)
        return values

    def _need(self, count: int) -> None:
        if count > self._size - self._at:
            raise ModelUnusable(
                f"{self._path.name} ends inside its header: at byte {self._at:,} of {self._size:,} it "
                f"announces {count:,} more. It was cut short or damaged; fetch it again."
            )

    def _damaged(self, what: str) -> ModelUnusable:
        return ModelUnusable(f"{self._path.name} is damaged: {what}. Fetch it again.")


def _block_of_another(kind: int) -> tuple[int, int]:
    """Raises ValueError or KeyError for a type that the `gguf` package does not know."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    values, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    return int(values), int(size)
