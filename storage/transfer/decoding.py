"""What the readers of other programs' exports have in common: decoding, and text of values of any kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from storage.errors import ImportRefused

Read = TypeVar("Read")

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]..", re.DOTALL)
_FENCE = re.compile(r"`{3,}")


def decode(piece: bytes, wanted: type[Read]) -> Read:
    """A JSON value of that shape; fields that it does not name are passed over. Raises `ImportRefused`."""
    try:
        return msgspec.json.decode(piece, type=wanted)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ImportRefused(f"It is not as such an export is: {error}.") from None


def text_of(value: Any) -> str:
    """The text that a value is; empty for anything else."""
    return value if isinstance(value, str) else ""


def file_names(files: Any) -> list[str]:
    """A word in the place of each file of a list that exports hold in many shapes."""
    listed = files if isinstance(files, list) else []
    return [_file_name(each) for each in listed if isinstance(each, Mapping)]


def _file_name(file: Mapping[str, Any]) -> str:
    kind, name = text_of(file.get("type")), text_of(file.get("name"))
    word = "image" if kind.startswith("image") else "file"
    return f"[{word}: {name}]" if name else f"[{word}]"


def fenced(text: str, language: str = "") -> str:
    """A code block with a fence longer than any inside."""
    longest = max(map(len, _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def mended(piece: bytes) -> bytes:
    """JSON without halves of characters, which programs in JavaScript write where they cut a text."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if _HALF.fullmatch(found[0]) else found[0], piece)
