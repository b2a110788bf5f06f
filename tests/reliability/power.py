"""What is on a disk after a power cut, made of the record of a process's writes and syncs (`disk.c`).

A file holds what was written before it was synced last, and a name is there once its folder was synced. Of
everything since, any part may have reached the disk: of writes, any of their sectors.
"""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = struct.Struct("=ciqq")
SECTOR = 512
IGNORED = re.compile("-shm$|^/prefix-cache/")
"""What SQLite makes anew after a crash, and what may be lost."""


@dataclass(frozen=True, slots=True)
class Call:
    """`what` is the first letter of open, write, truncate, sync, unlink, rename, mkdir; `a`: it was sent."""

    what: str
    file: int
    at: int
    data: bytes

    @property
    def path(self) -> str:
        return self.data.decode()


def read_record(file: Path) -> list[Call]:
    """All calls, in their order."""
    data, calls, place = file.read_bytes(), [], 0
    while place < len(data):
        what, number, at, length = HEAD.unpack_from(data, place)
        place += HEAD.size
        calls.append(Call(what.decode(), number, at, data[place : place + length]))
        place += length
    return calls


def told(call: Call) -> Iterator[dict[str, Any]]:
    """The frames in what was sent over a socket."""
    decoder = json.JSONDecoder()
    text = call.data.decode("utf-8", "replace") if call.what == "a" else ""
    start = text.find('{"type":"')
    while start >= 0:
        try:
            frame, end = decoder.raw_decode(text, start)
            yield frame
        except json.JSONDecodeError:
            end = start + 1
        start = text.find('{"type":"', end)


@dataclass
class File:
    """What a file holds for sure, and what was done to it since."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[Call] = field(default_factory=list)

    def sync(self) -> None:
        for call in self.since:
            _apply(self.synced, call)
        self.since.clear()

    def after_cut(self, chance: random.Random, kept: float) -> bytes:
        """With each sector of each write since kept by that chance."""
        content = bytearray(self.synced)
        for call in self.since:
            if call.what == "t":
                if chance.random() < kept:
                    _apply(content, call)
                continue
            for start in range(0, len(call.data), SECTOR):
                if chance.random() < kept:
                    part = call.data[start : start + SECTOR]
                    _apply(content, Call("w", call.file, call.at + start, part))
        return bytes(content)


def _apply(content: bytearray, call: Call) -> None:
    end = call.at + len(call.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if call.what == "t":
        del content[call.at :]
    else:
        content[call.at : end] = call.data


class Machine:
    """A folder on a disk while a process works in it. Calls are taken one after another."""

    def __init__(self, folder: Path) -> None:
        """`folder` is how everything began, and on the disk."""
        self._names: dict[str, File] = {}
        self._synced_names: dict[str, File] = {}
        self._open: dict[int, tuple[str, File]] = {}
        self._folders = {"": True}  # whether they are on the disk
        if folder.is_dir():
            for path in folder.rglob("*"):
                name = f"/{path.relative_to(folder)}"
                if path.is_file():
                    self._synced_names[name] = self._names[name] = File(bytearray(path.read_bytes()))
                else:
                    self._folders[name] = True

    def take(self, call: Call) -> None:
        """One more call took effect."""
        match call.what:
            case "o":
                self._opened(call)
            case "w" | "t":
                self._open[call.file][1].since.append(call)
            case "s":
                self._sync(*self._open[call.file])
            case "u":
                self._names.pop(call.path, None)
            case "r":
                old, new = call.path.split("\0")
                self._names[new] = self._names.pop(old)
            case "m":
                self._folders.setdefault(call.path, False)

    def cut(self, folder: Path, chance: random.Random, kept: float) -> None:
        """Writes what is on the disk if the power fails now; each name not synced is kept by that chance."""
        names = dict(self._synced_names)
        for name in {**self._names, **names}:
            if self._names.get(name) is not names.get(name) and chance.random() < kept:
                names.pop(name, None)
                if name in self._names:
                    names[name] = self._names[name]
        for made, synced in sorted(self._folders.items()):
            if synced or chance.random() < kept:
                (folder / made[1:]).mkdir(parents=True)
        for name, file in names.items():
            place = folder / name[1:]
            if place.parent.is_dir() and not IGNORED.search(name):
                place.write_bytes(file.after_cut(chance, kept))

    def _opened(self, call: Call) -> None:
        if call.path in self._folders or not call.path:  # a folder, or a file without a name in it
            self._open[call.file] = (call.path, File())
            return
        file = self._names.setdefault(call.path, File())
        self._open[call.file] = (call.path, file)

    def _sync(self, path: str, file: File) -> None:
        file.sync()
        if path in self._folders or not path:
            inside = {
                name for name in {**self._names, **self._synced_names} if name.rpartition("/")[0] == path
            }
            for name in inside:
                if name in self._names:
                    self._synced_names[name] = self._names[name]
                else:
                    del self._synced_names[name]
            for made in self._folders:
                if made.rpartition("/")[0] == path:
                    self._folders[made] = True
