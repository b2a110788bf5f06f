"""The file format of one stored block; `prefix_store` describes it. Bytes in, arrays out, and back."""

from __future__ import annotations

import hashlib
import json
import stat
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from inference.backends.base import BlockArrays
from inference.token_blocks import Tokens, block_name

FORMAT = "ondol-prefix-block"
VERSION = "1"
MOST_HEADER_BYTES = 2**20
LENGTH_BYTES = 8


class DamagedBlock(Exception):
    """A file that is no whole block of this version; the message says which and why."""


@dataclass(slots=True)
class StoredBlock:
    """What is known of a stored block without reading its arrays. `used_at` in nanoseconds of Unix time."""

    key: str
    parent: str
    tokens: Tokens
    checksum: str = ""
    nbytes: int = 0
    used_at: int = 0

    @property
    def name(self) -> str:
        """What the block is called, in the tree and on disk."""
        return block_name(self.parent, self.tokens)


def root_name(key: str) -> str:
    """What the paths of a key start from."""
    return hashlib.sha256(key.encode()).hexdigest()


def pack(block: StoredBlock, arrays: BlockArrays) -> bytes:
    """The file of a block."""
    block.checksum = _checksum(arrays)
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "key": block.key,
        "parent": block.parent,
        "tokens": json.dumps(block.tokens),
        "crc32": block.checksum,
        "seal": _seal(block),
    }
    return save(dict(arrays), metadata)


def unpack(data: bytes, block: StoredBlock) -> BlockArrays:
    """The arrays of a file whose header was read before. Raises DamagedBlock."""
    try:
        arrays = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedBlock(f"block {block.name} cannot be read ({error})") from error
    if _checksum(arrays) != block.checksum:
        raise DamagedBlock(f"block {block.name} has another checksum than when it was written")
    return arrays


def read_header(path: Path) -> StoredBlock:
    """What a file says of itself; its name must agree. Raises DamagedBlock."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise DamagedBlock(f"{path} is no file")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            if not 0 < length <= min(MOST_HEADER_BYTES, status.st_size - LENGTH_BYTES):
                raise DamagedBlock(f"{path} has no safetensors header")
            block = _described(json.loads(file.read(length))["__metadata__"])
        name = block.name
    except (OSError, ValueError, TypeError, KeyError, RecursionError, struct.error) as error:
        raise DamagedBlock(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    if path.name != f"{name}.safetensors":
        raise DamagedBlock(f"{path} holds other tokens than its name says")
    block.nbytes, block.used_at = status.st_size, status.st_mtime_ns
    return block


def _described(metadata: Mapping[str, str]) -> StoredBlock:
    if (metadata["format"], metadata["version"]) != (FORMAT, VERSION):
        raise ValueError(f"it is no block of version {VERSION}")
    fields = [metadata[name] for name in ("key", "parent", "crc32")]
    if not all(isinstance(field, str) for field in fields):
        raise ValueError("its metadata is not text")
    key, parent, checksum = fields
    block = StoredBlock(key, parent, tuple(json.loads(metadata["tokens"])), checksum)
    if metadata["seal"] != _seal(block):
        raise ValueError("its metadata was changed")
    return block


def _seal(block: StoredBlock) -> str:
    """CRC-32 of what the header says: a changed key would else pass for a block of another model and stay."""
    said = json.dumps([block.key, block.parent, list(block.tokens), block.checksum])
    return f"{zlib.crc32(said.encode()):08x}"


def _checksum(arrays: BlockArrays) -> str:
    """CRC-32: it is damage that is looked for, and reading must not take longer than computing anew."""
    crc = 0
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        crc = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), crc)
        crc = zlib.crc32(array.data.cast("B") if array.size else b"", crc)
    return f"{crc:08x}"
