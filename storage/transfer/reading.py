"""What a file to import holds: whose format it is, and its conversations one after another.

`found` only cuts the file up, so that it can be counted; `Found.read` builds a conversation. No more than one
is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from storage.errors import ImportRefused
from storage.transfer import archives, chatgpt, llama_cpp, open_webui
from storage.transfer.decoding import mended
from storage.transfer.limits import MAX_CONVERSATION_BYTES, MAX_CONVERSATIONS, MAX_FILE_BYTES
from storage.transfer.schema import FORMAT, VERSION, ExportedConversation, another_version, read_conversation
from storage.transfer.splitting import TOO_LONG, Piece, split

UNKNOWN = "It is not a conversation of Ondol, ChatGPT, Open WebUI or llama.cpp."


class Kind(Enum):
    """Whose conversation it is."""

    ONDOL = auto()
    CHATGPT = auto()
    OPEN_WEBUI = auto()
    LLAMA_CPP = auto()
    LINES = auto()


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation as it stands in a file: several JSON values for JSON lines, else one."""

    kind: Kind
    parts: tuple[bytes, ...]

    def read(self) -> ExportedConversation:
        """The conversation, its tree checked. Raises `ImportRefused`."""
        match self.kind:
            case Kind.ONDOL:
                return read_conversation(self.parts[0])
            case Kind.CHATGPT:
                return chatgpt.read(self.parts[0])
            case Kind.OPEN_WEBUI:
                return open_webui.read(self.parts[0])
            case Kind.LLAMA_CPP:
                return llama_cpp.read(self.parts[0])
            case Kind.LINES:
                return llama_cpp.read_lines(self.parts[0], self.parts[1:])


class _Shape(Struct):
    """The fields that tell formats apart. Their values are not built."""

    type: Any = UNSET
    format: Any = UNSET
    version: Any = UNSET
    conversations: Raw | UnsetType = UNSET
    mapping: Raw | UnsetType = UNSET
    conv: Raw | UnsetType = UNSET
    chat: Raw | UnsetType = UNSET
    history: Raw | UnsetType = UNSET
    messages: Raw | UnsetType = UNSET
    message: Raw | UnsetType = UNSET


def found(path: Path) -> Iterator[Found | ImportRefused]:
    """Every conversation of a file, or why one is not taken.

    Raises `ImportRefused` where the whole file is not; what came before then counts.
    """
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise ImportRefused(f"The file has {size:,} bytes; at most {MAX_FILE_BYTES:,} are taken at once.")
    if size == 0:
        raise ImportRefused("The file is empty.")
    count = 0
    for stream in _streams(path):
        for each in _recognized(split(stream)):
            count += 1
            if count > MAX_CONVERSATIONS:
                raise ImportRefused(f"It holds more than {MAX_CONVERSATIONS:,} conversations.")
            yield each
    if count == 0:
        raise ImportRefused("There is no conversation in this file.")


def _streams(path: Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        is_archive = file.read(len(archives.MAGIC)) == archives.MAGIC
        file.seek(0)
        if not is_archive:
            yield file
            return
        archive, wanted = stack.enter_context(archives.members(path))
        for info in wanted:
            with archives.opened(archive, info) as stream:
                yield stream


def _recognized(pieces: Iterator[tuple[Piece, bool]]) -> Iterator[Found | ImportRefused]:
    lines = _Lines()
    for piece, written_by_ondol in pieces:
        if isinstance(piece, ImportRefused):
            lines.drop()
            yield piece
        elif written_by_ondol:
            yield Found(Kind.ONDOL, (piece,))
        else:
            yield from _told(piece, lines)
    yield from lines.taken()


def _told(piece: bytes, lines: _Lines) -> Iterator[Found | ImportRefused]:
    try:
        piece, shape = _shape(piece)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        lines.drop()
        yield ImportRefused(f"It is not valid JSON: {error}.")
        return
    if shape.type == "message" and shape.message is not UNSET and lines.goes_on:
        yield from lines.add(piece)
        return
    yield from lines.taken()
    if shape.type == "session" and shape.mapping is UNSET:
        lines.begin(piece)
    elif shape.format == FORMAT and isinstance(shape.conversations, Raw):
        yield from _document(shape.version, shape.conversations)
    else:
        kind = _kind(shape)
        yield Found(kind, (piece,)) if kind else ImportRefused(UNKNOWN)


def _shape(piece: bytes) -> tuple[bytes, _Shape]:
    try:
        return piece, msgspec.json.decode(piece, type=_Shape)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        piece = mended(piece)
        return piece, msgspec.json.decode(piece, type=_Shape)


def _document(version: object, conversations: Raw) -> Iterator[Found | ImportRefused]:
    """An Ondol document that somebody has written anew."""
    if version != VERSION:
        yield ImportRefused(another_version(version))
        return
    try:
        pieces = msgspec.json.decode(conversations, type=list[Raw])
    except msgspec.ValidationError:
        yield ImportRefused(UNKNOWN)
        return
    yield from (Found(Kind.ONDOL, (bytes(piece),)) for piece in pieces)


def _kind(shape: _Shape) -> Kind | None:
    if shape.mapping is not UNSET:
        return Kind.CHATGPT
    if shape.conv is not UNSET and shape.messages is not UNSET:
        return Kind.LLAMA_CPP
    is_chat = any(value is not UNSET for value in (shape.chat, shape.history, shape.messages))
    return Kind.OPEN_WEBUI if is_chat else None


class _Lines:
    """JSON lines of one conversation, until the next begins."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0

    @property
    def goes_on(self) -> bool:
        return bool(self._parts)

    def begin(self, session: bytes) -> None:
        self._parts, self._bytes = [session], len(session)

    def add(self, message: bytes) -> Iterator[ImportRefused]:
        """A further line; a conversation that becomes too long is refused once."""
        before, self._bytes = self._bytes, self._bytes + len(message)
        if self._bytes <= MAX_CONVERSATION_BYTES:
            self._parts.append(message)
        elif before <= MAX_CONVERSATION_BYTES:
            self._parts = self._parts[:1]
            yield ImportRefused(TOO_LONG)

    def drop(self) -> None:
        """Something in it cannot be read: it is not taken in part."""
        self._parts, self._bytes = [], 0

    def taken(self) -> Iterator[Found]:
        parts, too_long = self._parts, self._bytes > MAX_CONVERSATION_BYTES
        self.drop()
        if parts and not too_long:
            yield Found(Kind.LINES, tuple(parts))
