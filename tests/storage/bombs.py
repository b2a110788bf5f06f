"""Hostile files, and a process that reads one and tells what that took."""

from __future__ import annotations

import io
import json
import resource
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from storage.errors import ImportRefused
from storage.transfer.limits import MAX_ARCHIVE_LIST_BYTES, MAX_CONVERSATION_BYTES, MAX_FILE_BYTES, MIB
from storage.transfer.reading import found
from tests.storage.exports import chatgpt_simple

HEAD = b'{"format":"ondol","version":1,"conversations":['
MESSAGE = b'{"mapping":{"a":{"message":{"author":{"role":"user"},"content":{"parts":['
END = b"]}}}}}"


def wrapped(content: bytes) -> bytes:
    """A ChatGPT conversation with this between the parts of a message."""
    return b"[" + MESSAGE + content + END + b"]"


def zeros(path: Path, size: int, name: str = "conversations.json") -> None:
    """A .zip with that many zeros, which pack a thousand to one."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as member:
        for _ in range(size // MIB):
            member.write(bytes(MIB))


def lying(path: Path) -> None:
    """A .zip that says that it holds less than it does."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * (16 * MIB) + b"]")
    content = file.getvalue()
    real = struct.pack("<L", 16 * MIB + 2)
    assert content.count(real) == 2
    path.write_bytes(content.replace(real, struct.pack("<L", 100)))


def endless_list(path: Path, *, large: bool = False) -> None:
    """A .zip whose list of files is longer than any that is read; `large`: in the form for large archives."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", *(0,) * 9, 1, 0, 0, 0, 0, 0, 0) + b"a"
    listed = entry * (MAX_ARCHIVE_LIST_BYTES // len(entry) + 1)
    if large:
        record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(listed), 0)
        listed += record + struct.pack("<4sLQL", b"PK\6\7", 0, len(listed), 1)
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 64, 0, 0)
    else:
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(listed), 0, 0)
    path.write_bytes(listed + end)


def packed_with(method: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("conversations.json", json.dumps([chatgpt_simple()]))

    return write


def locked(path: Path) -> None:
    packed_with(zipfile.ZIP_DEFLATED)(path)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(content)


def written(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def sparse(size: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return write


BOMBS: dict[str, Callable[[Path], None]] = {
    "a larger file than is taken": sparse(MAX_FILE_BYTES + 1),
    "zeros in a zip": lambda path: zeros(path, 32 * MIB),
    "zeros in a zip as lines": lambda path: zeros(path, 32 * MIB, "chat.jsonl"),
    "a zip that lies": lying,
    "a list of files without end": endless_list,
    "a list of files without end, for large archives": lambda path: endless_list(path, large=True),
    "another packing": packed_with(zipfile.ZIP_LZMA),
    "a locked zip": locked,
    "a zip in a zip": lambda path: _nested(path),
    "open lists": written(b"[" * 600_000),
    "open objects": written(b'{"a":' * 600_000),
    "nested lists in a message": written(wrapped(b"[" * 100_000 + b"]" * 100_000)),
    "nested objects in a document": written(HEAD + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]}"),
    "a long number": written(wrapped(b"1" * 5_000_000)),
    "a large exponent": written(wrapped(b"1e999999999")),
    "millions of lists": written(wrapped(b"[]," * 1_200_000 + b"1")),
    "millions of values": written(wrapped(b"0," * 8_000_000 + b"0")),
    "millions of messages": written(b'{"conv":{},"messages":[' + b"{}," * 700_000 + b"{}]}"),
    "a string without end": written(b'[{"mapping":"' + b"x" * (MAX_CONVERSATION_BYTES + 2 * MIB)),
    "a conversation that is too long": written(wrapped(b'"' + b"x" * (MAX_CONVERSATION_BYTES + MIB) + b'"')),
    "lines that make one that is too long": lambda path: _lines(path),
    "a conversation of backslashes": written(wrapped(b'"' + b"\\\\" * 4_000_000)),
}
"""Files by what is wrong with them."""


def _nested(path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("conversations.json", b"[]")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())


def _lines(path: Path) -> None:
    line = b'\n{"type":"message","message":{"content":"' + b"x" * MIB + b'"}}'
    with path.open("wb") as file:
        file.write(b'{"type":"session","id":"a"}')
        for _ in range(MAX_CONVERSATION_BYTES // MIB + 3):
            file.write(line)


def outcomes(path: Path) -> Iterator[str]:
    """What is said of a file; empty for a conversation that is taken."""
    try:
        for each in found(path):
            try:
                if isinstance(each, ImportRefused):
                    raise each
                each.read()
                yield ""
            except ImportRefused as error:
                yield str(error)
    except ImportRefused as error:
        yield str(error)


def main(folder: str) -> None:
    """Reads every file of a folder after an innocent one; prints what is said of each, and by how many KiB
    the process had grown at most by then.
    """
    innocent = Path(folder).with_name("innocent")
    innocent.write_text(json.dumps([chatgpt_simple()]))
    assert list(outcomes(innocent)) == [""]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = {}
    for path in Path(folder).iterdir():
        said = list(outcomes(path))
        told[path.name] = [said, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before]
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
