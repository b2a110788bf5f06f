"""Blocks of KV as files in a folder of their own, so that the first reply after a restart is warm.

One safetensors file a block, `<name>.safetensors`, where the name is a SHA-256 over the parent's name and the
block's tokens, and a path starts from the SHA-256 of the key: whatever else decides about the numbers (model,
quantization, backend, dtype). The file's `__metadata__` (all text) holds:

    format    "ondol-prefix-block"      version   "1"
    key       the key in full           parent    the name of the block before, or the key's SHA-256
    tokens    token ids as JSON         crc32     over all arrays: names, types, shapes, bytes

`owners.json` tells whose each block is: {"version": 1, "owners": {name: [owner, ...]}}, with owners as
`inference.ownership` has them. It is written before blocks are, and removed blocks go before it is: a block
that it does not name is nobody's and is removed. So is every file that is damaged, of another version or not
ours. Nothing is synced to the disk: what a crash tears is found by its checksum and computed anew.

The callers see to it that one thread uses a store at a time.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from inference.backends.base import BlockArrays
from inference.block_files import DamagedBlock, StoredBlock, pack, read_header, unpack
from inference.ownership import NOBODY, conversation_of

logger = logging.getLogger(__name__)

INDEX = "owners.json"
INDEX_VERSION = 1
SUFFIX = ".safetensors"
UNFINISHED = ".unfinished"


class PrefixStore:
    """The folder: at most `capacity_bytes` of blocks, the least recently used leave first."""

    def __init__(self, folder: Path, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._folder = folder
        self._blocks: dict[str, StoredBlock] = {}
        self._owners: dict[str, frozenset[str]] = {}
        self._opened = False
        self._newest = 0

    def open(self) -> None:
        """Look at what is there, once, and remove what cannot be used. Raises OSError."""
        if self._opened:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        owners = _read_index(self._folder / INDEX)
        for entry in sorted(self._folder.iterdir()):
            if entry.name == INDEX:
                continue
            try:
                block = read_header(entry)
                if block.name not in owners:
                    raise DamagedBlock(f"{entry} belongs to nobody")
            except DamagedBlock as reason:
                logger.info("removed from the prefix cache: %s", reason)
                _remove(entry)
                continue
            self._blocks[block.name] = block
        self._owners = {name: owners[name] for name in self._blocks}
        self._opened = True
        self._keep_within_bound()

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks on disk."""
        return sum(block.nbytes for block in self._blocks.values())

    def blocks_of(self, key: str) -> list[StoredBlock]:
        """The stored blocks that were computed under this key, most recently used first."""
        found = [block for block in self._blocks.values() if block.key == key]
        return sorted(found, key=lambda block: block.used_at, reverse=True)

    def owners_of(self, name: str) -> frozenset[str]:
        """Whose a block is."""
        return self._owners.get(name, frozenset())

    def owners(self) -> set[str]:
        """Everyone who owns a block."""
        return {owner for owners in self._owners.values() for owner in owners}

    def read(self, block: StoredBlock) -> BlockArrays | None:
        """The arrays of a block; None when its file is damaged, which removes it."""
        path = self._path(block.name)
        try:
            return unpack(path.read_bytes(), block)
        except (OSError, DamagedBlock) as reason:
            logger.warning("removed from the prefix cache: %s", reason)
            self.remove([block.name])
            return None

    def write(self, block: StoredBlock, arrays: BlockArrays) -> None:
        """Keep a block, whole or not at all. Raises OSError."""
        data = pack(block, arrays)
        self._write(self._path(block.name), data)
        block.nbytes = len(data)
        self._blocks[block.name] = block
        self.touch([block.name])
        self._keep_within_bound()

    def touch(self, names: Iterable[str]) -> None:
        """These blocks were used just now, the last of them last."""
        for name in names:
            block = self._blocks.get(name)
            if block is not None:
                self._newest = block.used_at = max(time.time_ns(), self._newest + 1)
                with suppress(OSError):
                    os.utime(self._path(name), ns=(block.used_at, block.used_at))

    def remove(self, names: Iterable[str]) -> None:
        """Remove blocks from the disk."""
        for name in names:
            if self._blocks.pop(name, None) is not None:
                _remove(self._path(name))

    def claim(self, owners: Mapping[str, frozenset[str]]) -> None:
        """Note who owns these blocks, stored already or about to be. Raises OSError."""
        others = {name: self.owners_of(name) for name in self._blocks if name not in owners}
        if {**others, **owners} != self._owners:
            self._owners = {**others, **owners}
            self._write_index()

    def forget(self, conversation: str, others: Mapping[str, frozenset[str]]) -> None:
        """Remove every block that only this conversation used; `others` are the owners of what is still
        cached, this conversation among them where it keeps a block. Raises OSError.
        """
        left = {
            name: frozenset(owner for owner in owners if conversation_of(owner) != conversation)
            for name, owners in self._owners.items()
        } | dict(others)
        self.remove([name for name, owners in left.items() if not owners])
        owned = {name: owners for name, owners in left.items() if owners}
        if owned != self._owners:
            self._owners = owned
            self._write_index()

    def _keep_within_bound(self) -> None:
        excess = self.nbytes - self.capacity_bytes
        for block in sorted(self._blocks.values(), key=lambda block: block.used_at):
            if excess <= 0:
                return
            self.remove([block.name])
            excess -= block.nbytes

    def _write_index(self) -> None:
        owners = {name: sorted(owners) for name, owners in self._owners.items()}
        data = json.dumps({"version": INDEX_VERSION, "owners": owners}).encode()
        self._write(self._folder / INDEX, data)

    def _write(self, path: Path, data: bytes) -> None:
        unfinished = path.with_name(path.name + UNFINISHED)
        _remove(unfinished)
        try:
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            unfinished.replace(path)
        except OSError:
            _remove(unfinished)
            raise

    def _path(self, name: str) -> Path:
        return self._folder / (name + SUFFIX)


def unowned_files(folder: Path, conversations: Container[str]) -> list[Path]:
    """What lies in a store's folder and belongs to none of these, nor to nobody in particular. Reads only."""
    if not folder.is_dir():
        return []
    index = _read_index(folder / INDEX)
    return [
        file
        for file in sorted(folder.iterdir())
        if file.name != INDEX
        and not any(
            each == NOBODY or conversation_of(each) in conversations
            for each in index.get(file.name.removesuffix(SUFFIX), ())
        )
    ]


def _read_index(path: Path) -> dict[str, frozenset[str]]:
    """Owners by block; nothing where the index is not there, damaged or of another version."""
    try:
        index = json.loads(path.read_bytes())
        if index["version"] != INDEX_VERSION:
            return {}
        return {str(name): frozenset(map(str, owners)) for name, owners in index["owners"].items() if owners}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _remove(path: Path) -> None:
    with suppress(OSError):  # a folder is not ours; a file that is gone is what was wanted
        path.unlink()
