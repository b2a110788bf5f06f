"""The list of models whose tokenizers are on this disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

from inference.models.catalogue import CATALOGUE, DEFAULT_MODEL
from inference.models.installed import MOST_MODELS, installed_tokenizers
from tests.inference.doubles import prepare_double


def put(folder: Path, **description: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text("{}")
    if description:
        (folder / "ondol.json").write_text(json.dumps(description))
    return folder


def test_every_model_is_listed_once_by_a_name_of_its_own(tmp_path: Path) -> None:
    entry = CATALOGUE[DEFAULT_MODEL]
    put(tmp_path / f"gguf-{entry.wheel.member_sha256[:16]}")
    put(tmp_path / "gguf-0123456789abcdef", name="Qwen3-8B-Q4_K_M")
    put(tmp_path / "gguf-fedcba9876543210", name="Qwen3-8B-Q4_K_M")
    put(tmp_path / "gguf-00000000000000ff", name=["no", "name"])
    old = put(tmp_path / "hub" / "models--owner--a--b" / "snapshots" / "1")
    new = put(tmp_path / "hub" / "models--owner--a--b" / "snapshots" / "2")
    os.utime(old, ns=(1, 1))
    (tmp_path / "folder-with-weights-only").mkdir()
    loaded = prepare_double(tmp_path / "elsewhere")
    found = installed_tokenizers(tmp_path, loaded)
    assert [model.name for model in found] == [
        "Double",
        "gguf-00000000000000ff",
        "owner/a--b",
        "Qwen3-8B-Q4_K_M",
        "Qwen3-8B-Q4_K_M (gguf-fedcba9876543210)",
        entry.name,
    ]
    assert found[2].file.parent == new


def test_the_loaded_model_is_not_listed_twice_and_the_list_has_an_end(tmp_path: Path) -> None:
    for number in range(MOST_MODELS + 5):
        put(tmp_path / f"gguf-{number:016x}", name=f"model {number:02}")
    loaded = prepare_double(tmp_path / "gguf-0000000000000007")
    found = installed_tokenizers(tmp_path, loaded)
    assert len(found) == MOST_MODELS
    assert [model.name for model in found[:2]] == ["Double", "model 00"]
    assert "model 07" not in [model.name for model in found]
    assert installed_tokenizers(tmp_path / "nowhere") == []
