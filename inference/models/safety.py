"""Refusing configurations that would make a loader run or fetch code.

`auto_map` names Python files of the model's own repository. The `…_implementation` fields may name a kernel
repository, "owner/name", which some loaders fetched and ran even with remote code disallowed (CVE-2026-4372).
Both are refused wherever they stand in a configuration, however deep.
"""

from __future__ import annotations

from inference.errors import ModelUnusable
from inference.models.json_files import JsonObject


def refuse_code(config: JsonObject, where: str) -> None:
    """Raise ModelUnusable when `config` names code; `where` is the file it came from."""
    pending: list[object] = [config]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            for key, inner in value.items():
                _refuse_entry(key, inner, where)
            pending += value.values()


def _refuse_entry(key: str, value: object, where: str) -> None:
    if key == "auto_map" and value:
        raise ModelUnusable(
            f"{where} asks for the model's own code (auto_map), which Ondol never runs. Choose a model of an "
            "architecture that transformers supports itself."
        )
    if key.endswith(("_implementation", "_implementation_internal")) and "/" in str(value):
        raise ModelUnusable(
            f"{where} asks for code from another repository ({key}), which Ondol never runs. Remove that "
            "entry if you trust the rest of the model."
        )
