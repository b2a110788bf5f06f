"""Cuts a JSON file into its conversations without building anything of it: only brackets and quotes are read.

A file is an array of objects, an Ondol document, or objects one after another (one alone, or JSON lines).
What is in memory is one object and a chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, TypeAlias

from storage.errors import ImportRefused
from storage.transfer.limits import MAX_CONTAINERS, MAX_CONVERSATION_BYTES, MAX_DEPTH, MAX_VALUES, MIB
from storage.transfer.schema import FORMAT, VERSION, another_version

CHUNK = 256 * 1_024

Piece: TypeAlias = bytes | ImportRefused
"""An object as it stands in the file, or why it is not taken."""

_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\[|\{)")
_ONDOL = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"format"\s*:\s*"%b"\s*,\s*"version"\s*:\s*(\d{1,9})\s*,\s*"conversations"\s*:\s*\['
    % FORMAT.encode()
)
_PLAIN = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_STRING = re.compile(rb"(?:[^\"\\]++|\\.)*+", re.DOTALL)
_VALUES = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(,)', re.DOTALL)
_QUOTE, _OPENING, _OBJECT = ord('"'), b"[{", ord("{")

TOO_LONG = f"It is longer than {MAX_CONVERSATION_BYTES // MIB} MiB, the most that a conversation may have."
TOO_DEEP = f"Its lists and objects are nested more than {MAX_DEPTH} deep."
TOO_MANY = f"It has more than {MAX_CONTAINERS:,} lists and objects."
TOO_MANY_VALUES = f"It has more than {MAX_VALUES:,} values."
NO_JSON = "This is no JSON: it begins with neither [ nor {."
CUT_SHORT = "The file ends in the middle of a conversation: it was cut short."


def split(stream: BinaryIO) -> Iterator[tuple[Piece, bool]]:
    """Every object, and whether the file says that Ondol wrote it.

    Raises `ImportRefused` for what is no JSON at all, and for a document of a newer Ondol.
    """
    beginning = stream.read(CHUNK)
    written_by_ondol = _ONDOL.match(beginning)
    if written_by_ondol is not None:
        version = int(written_by_ondol[1])
        if version != VERSION:
            raise ImportRefused(another_version(version))
        pieces = _Splitter(stream, beginning, base=2, at=written_by_ondol.end()).pieces()
        yield from ((piece, True) for piece in pieces)
        return
    found = _BEGINNING.match(beginning)
    if found is None:
        raise ImportRefused(NO_JSON)
    base = 1 if found[1] == b"[" else 0
    at = found.end() if base else found.end() - 1
    yield from ((piece, False) for piece in _Splitter(stream, beginning, base=base, at=at).pieces())


class _Splitter:
    """Where the scan stands. `start` is where an object begins that is being read, in the buffer."""

    def __init__(self, stream: BinaryIO, beginning: bytes, *, base: int, at: int) -> None:
        self._stream = stream
        self._buffer = bytearray(beginning)
        self._at = at
        self._base = self._depth = base
        self._start: int | None = None
        self._in_string = False
        self._containers = 0
        self._refusal: str | None = None

    def pieces(self) -> Iterator[Piece]:
        while True:
            while self._next_bracket():
                if self._buffer[self._at] in _OPENING:
                    self._open()
                    continue
                self._depth -= 1
                self._at += 1
                if self._depth < self._base:
                    return
                if self._depth == self._base and self._start is not None:
                    yield self._taken()
            if not self._read():
                break
        if self._depth or self._in_string or self._start is not None:
            yield ImportRefused(CUT_SHORT)

    def _next_bracket(self) -> bool:
        """Whether there is another bracket in the buffer; the scan stands at it then."""
        while True:
            if self._in_string:
                self._at = _end(_IN_STRING, self._buffer, self._at)
                if self._at == len(self._buffer) or self._buffer[self._at] != _QUOTE:
                    return False  # goes on in the next chunk, perhaps after a backslash
                self._at += 1
                self._in_string = False
            self._at = _end(_PLAIN, self._buffer, self._at)
            if self._at == len(self._buffer):
                return False
            if self._buffer[self._at] != _QUOTE:
                return True
            self._in_string = True
            self._at += 1

    def _open(self) -> None:
        if self._depth == self._base and self._buffer[self._at] == _OBJECT:
            self._start, self._containers, self._refusal = self._at, 0, None
        self._depth += 1
        self._at += 1
        self._containers += 1
        if self._depth - self._base > MAX_DEPTH:
            self._refusal = self._refusal or TOO_DEEP
        elif self._containers > MAX_CONTAINERS:
            self._refusal = self._refusal or TOO_MANY

    def _taken(self) -> Piece:
        assert self._start is not None
        piece = b"" if self._refusal else bytes(self._buffer[self._start : self._at])
        del self._buffer[: self._at]
        self._at, self._start = 0, None
        if self._refusal is None and len(piece) > MAX_CONVERSATION_BYTES:
            self._refusal = TOO_LONG
        if self._refusal is None and _has_too_many_values(piece):
            self._refusal = TOO_MANY_VALUES
        return ImportRefused(self._refusal) if self._refusal else piece

    def _read(self) -> bool:
        """Whether there was more. What is not needed any more is dropped first."""
        if self._start is not None and self._at - self._start > MAX_CONVERSATION_BYTES:
            self._refusal = self._refusal or TOO_LONG
        kept = self._at if self._start is None or self._refusal else self._start
        del self._buffer[:kept]
        self._at -= kept
        if self._start is not None:
            self._start = 0
        chunk = self._stream.read(CHUNK)
        self._buffer += chunk
        return bool(chunk)


def _end(pattern: re.Pattern[bytes], buffer: bytearray, at: int) -> int:
    found = pattern.match(buffer, at)
    assert found is not None  # both match the empty string
    return found.end()


def _has_too_many_values(piece: bytes) -> bool:
    """Commas outside strings; those inside are told apart only where there are many."""
    if piece.count(b",") <= MAX_VALUES:
        return False
    commas = (found for found in _VALUES.finditer(piece) if found[1] is not None)
    return next(islice(commas, MAX_VALUES, None), None) is not None
