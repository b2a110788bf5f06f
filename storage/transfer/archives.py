"""Looks into a .zip before anything of it is unpacked. Nothing is ever written under a name that it gives."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from storage.errors import ImportRefused
from storage.transfer.limits import MAX_ARCHIVE_LIST_BYTES, MAX_FILE_BYTES, MAX_RATIO, SMALL

MAGIC = b"PK"
_WANTED = re.compile(r"(?:^|/)conversations(?:-\d+)?\.json$|\.jsonl$", re.IGNORECASE)
_END = struct.Struct("<4s4H2LH")  # the end of central directory record (APPNOTE.TXT, 4.3.16)
_END_MARK = b"PK\x05\x06"
_END64 = struct.Struct("<4sQ2H2L4Q")  # the same for large archives (4.3.14), and the locator after it
_LOCATOR_MARK, _LOCATOR_BYTES = b"PK\x06\x07", 20
_COMMENT = 2**16
_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError)
UNREADABLE = "The .zip is damaged or of a kind that is not read."


@contextmanager
def members(path: Path) -> Iterator[tuple[zipfile.ZipFile, list[zipfile.ZipInfo]]]:
    """The archive, and the files in it that hold conversations: ChatGPT's, or llama.cpp's .jsonl.

    Raises `ImportRefused`, before anything is unpacked.
    """
    _check_list(path)
    try:
        with zipfile.ZipFile(path) as archive:
            wanted = [info for info in archive.infolist() if _WANTED.search(info.filename)]
            for info in wanted:
                _check(info)
            if not wanted:
                raise ImportRefused("There is no conversations.json and no .jsonl file in this .zip.")
            total = sum(info.file_size for info in wanted)
            if total > MAX_FILE_BYTES:
                raise ImportRefused(_too_large(total))
            yield archive, wanted
    except _DAMAGED:
        raise ImportRefused(UNREADABLE) from None


@contextmanager
def opened(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[BinaryIO]:
    """The content of one of them."""
    try:
        with archive.open(info) as stream:
            yield cast(BinaryIO, _Unpacked(stream))
    except _DAMAGED:
        raise ImportRefused(UNREADABLE) from None


class _Unpacked:
    """What unpacks as it is read. Reading happens outside of `opened`, and so do its errors."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Raises `ImportRefused` where the content is not what the archive says."""
        try:
            return self._stream.read(size)
        except _DAMAGED:
            raise ImportRefused(UNREADABLE) from None


def _check(info: zipfile.ZipInfo) -> None:
    if info.flag_bits & 1:
        raise ImportRefused("The .zip is locked with a password: unpack it first.")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ImportRefused(UNREADABLE)
    if info.file_size > MAX_FILE_BYTES:
        raise ImportRefused(_too_large(info.file_size))
    if info.file_size > max(SMALL, MAX_RATIO * info.compress_size):
        raise ImportRefused(
            f"A file in the .zip says that its {info.compress_size:,} bytes unpack to {info.file_size:,}: "
            f"more than {MAX_RATIO} times as much is not unpacked."
        )


def _check_list(path: Path) -> None:
    """Its list of files is read whole: how long that is stands at its end."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _END.size - _COMMENT))
        tail = file.read()
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) - at < _END.size:
        raise ImportRefused(UNREADABLE)
    list_bytes = _END.unpack_from(tail, at)[5]
    record = at - _LOCATOR_BYTES - _END64.size
    if record >= 0 and tail.startswith(_LOCATOR_MARK, at - _LOCATOR_BYTES):
        list_bytes = _END64.unpack_from(tail, record)[8]
    if list_bytes > MAX_ARCHIVE_LIST_BYTES:
        raise ImportRefused(
            f"The .zip lists its files in {list_bytes:,} bytes; {MAX_ARCHIVE_LIST_BYTES:,} are read. "
            "Unpack it and take the file with the conversations."
        )


def _too_large(size: int) -> str:
    return f"It holds {size:,} bytes; at most {MAX_FILE_BYTES:,} are taken at once."
