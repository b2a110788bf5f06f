"""Reading JSON files that strangers wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

from inference.errors import ModelUnusable

JsonObject: TypeAlias = dict[str, Any]

_MOST_BYTES = 64 * 2**20


def read_object(path: Path) -> JsonObject:
    """The JSON object in `path`, or {} when there is no such file.

    Raises ModelUnusable when it is over 64 MiB, is not JSON, nests too deeply, or is no object.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return {}
    if size > _MOST_BYTES:
        raise ModelUnusable(f"{path} has {size:,} bytes; at most {_MOST_BYTES:,} are read.")
    return parse_object(path.read_bytes(), str(path))


def parse_object(raw: bytes, what: str) -> JsonObject:
    """The JSON object in `raw`; `what` names it in the sentence of ModelUnusable."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelUnusable(
            f"{what} is not readable JSON ({error}). Fetch the model's files again."
        ) from error
    if not isinstance(value, dict):
        raise ModelUnusable(f"{what} holds no JSON object. Fetch the model's files again.")
    return value
