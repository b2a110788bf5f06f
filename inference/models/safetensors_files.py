"""The weight files of a model folder, found and checked without reading the weights.

A safetensors file is an 8-byte little-endian length, that many bytes of JSON naming each tensor's type, shape
and extent, and the tensors without gaps (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

from pathlib import Path

from inference.errors import ModelUnusable
from inference.models.json_files import parse_object, read_object

_MOST_HEADER_BYTES = 100_000_000
_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold the weights: those of the index, or model.safetensors.

    Raises ModelUnusable when there are none, one is missing, lies elsewhere, or is damaged.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = _shard_names(index)
    elif (folder / "model.safetensors").is_file():
        names = ["model.safetensors"]
    else:
        raise _without_weights(folder)
    files = tuple(folder / name for name in names)
    for file in files:
        check_file(file)
    return files


def _shard_names(index: Path) -> list[str]:
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelUnusable(f"{index} lists no weights. Fetch the model's files again.")
    names = sorted({str(name) for name in weight_map.values()})
    for name in names:
        if not name.endswith(".safetensors") or "/" in name or "\\" in name:
            raise ModelUnusable(f"{index} names {name!r}; only .safetensors files beside it are read.")
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise ModelUnusable(
            f"{index.parent} lacks {len(missing)} of {len(names)} weight files, first {missing[0]}. Fetch "
            "them again."
        )
    return names


def _without_weights(folder: Path) -> ModelUnusable:
    suffixes = {file.suffix for file in folder.iterdir()}
    if ".gguf" in suffixes:
        return ModelUnusable(f"{folder} holds .gguf files; give the path of one of them.")
    if suffixes & _PICKLES:
        return ModelUnusable(
            f"{folder} has only .bin/pickle weights, which can run code when they are read. Choose or "
            "convert to *.safetensors files."
        )
    return ModelUnusable(f"{folder} has neither model.safetensors nor model.safetensors.index.json.")


def check_file(file: Path) -> None:
    """Raise ModelUnusable unless the header can be read and its tensors fill the file to its last byte."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER_BYTES):
            raise ModelUnusable(
                f"{file} is no whole safetensors file: it has {size:,} bytes, but its header alone would "
                f"have {length + 8:,}. Fetch it again."
            )
        header = parse_object(stream.read(length), f"The header of {file}")
    expected = (
        8
        + length
        + max((_end(entry, file) for key, entry in header.items() if key != "__metadata__"), default=0)
    )
    if size != expected:
        raise ModelUnusable(
            f"{file} has {size:,} bytes, but its header describes {expected:,}. It was cut short or damaged; "
            "fetch it again."
        )


def _end(entry: object, file: Path) -> int:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if isinstance(offsets, list) and len(offsets) == 2 and all(isinstance(offset, int) for offset in offsets):
        return int(offsets[1])
    raise ModelUnusable(
        f"The header of {file} is damaged: {entry!r:.80} describes no tensor. Fetch it again."
    )
