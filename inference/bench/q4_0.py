"""A copy of a GGUF file in Q4_0, llama.cpp's fastest format: `python -m inference.bench.q4_0 SOURCE TARGET`.

Matrices in other formats of four to six bits are dequantized and quantized anew; all else is kept as it is.
The copy is a little worse than its original, and good for comparing speed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gguf import (
    GGMLQuantizationType,
    GGUFReader,
    GGUFValueType,
    GGUFWriter,
    ReaderField,
    dequantize,
    quantize,
)

KEPT = {"F32", "F16", "BF16", "Q8_0", "Q4_0"}
WRITTEN_BY_ITSELF = {"general.architecture", "general.file_type"}
MOSTLY_Q4_0 = 2


def write_q4_0(source: Path, target: Path) -> None:
    """Write the copy; an existing file is replaced."""
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, architecture)
    writer.add_file_type(MOSTLY_Q4_0)
    for field in reader.fields.values():
        _copy(field, writer)
    for tensor in reader.tensors:
        if tensor.tensor_type.name in KEPT:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        else:
            values = dequantize(tensor.data, tensor.tensor_type)
            kind = GGMLQuantizationType.Q4_0
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy(field: ReaderField, writer: GGUFWriter) -> None:
    if field.name.startswith("GGUF.") or field.name in WRITTEN_BY_ITSELF:
        return
    kind, *items = field.types
    item = items[-1] if kind is GGUFValueType.ARRAY else None
    writer.add_key_value(field.name, field.contents(), kind, item)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("source", type=Path)
    arguments.add_argument("target", type=Path)
    options = arguments.parse_args()
    write_q4_0(options.source, options.target)
