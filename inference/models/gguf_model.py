"""A .gguf file, described once as transformers' config.json and the tokenizers library's tokenizer.json.

The description is kept in the model cache, so that the next start reads three small JSON files instead of the
vocabulary. The weights stay in the .gguf file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from inference.errors import ModelUnusable
from inference.models.folders import private_folder, publish
from inference.models.gguf_config import build_config
from inference.models.gguf_header import GgufHeader, read_header
from inference.models.gguf_tokenizer import build_tokenizer, end_ids, token_text
from inference.models.gguf_weights import check_tensors, read_rope_factors
from inference.models.json_files import JsonObject, read_object
from inference.models.prepared import PreparedModel, Progress
from inference.models.safetensors_folder import DEFAULT_SAMPLING
from inference.types import ModelPhase, ModelStatus

DESCRIPTION = "ondol.json"
_FORMAT = 1
"""Raise it whenever what is written here changes, so that older descriptions are written anew."""


def prepare_gguf(
    gguf: Path, *, models_dir: Path, name: str, source: str, progress: Progress, digest: str | None = None
) -> PreparedModel:
    """Check the file and describe it in `models_dir`/gguf-<16 hexadecimal digits>.

    The digits are those of the file's SHA-256 where it is known (`digest`), else of a hash of its path, size
    and modification time, which costs nothing and changes whenever the file is replaced.
    Raises ModelUnusable with the reason.
    """
    folder = models_dir / f"gguf-{(digest or _identity(gguf))[:16]}"
    description = read_object(folder / DESCRIPTION)
    if description.get("format") != _FORMAT or not (folder / "tokenizer.json").is_file():
        progress(ModelStatus(ModelPhase.CONVERTING, f"Reading {gguf.name}"))
        description = _describe(gguf, folder, models_dir, name)
    return PreparedModel(
        folder=folder,
        gguf=gguf,
        name=name,
        source=source,
        context_window=description["context_window"],
        chat_template=description["chat_template"],
        bos_token=description["bos_token"],
        eos_token=description["eos_token"],
        eos_token_ids=tuple(description["eos_token_ids"]),
        defaults=DEFAULT_SAMPLING,
    )


def _identity(gguf: Path) -> str:
    stat = gguf.stat()
    return hashlib.sha256(f"{gguf.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode()).hexdigest()


def check_gguf(gguf: Path) -> tuple[GgufHeader, JsonObject]:
    """The header, and the model's config in transformers' format. Raises ModelUnusable; writes nothing."""
    header = read_header(gguf)
    config = build_config(header, read_rope_factors(header))
    check_tensors(header, config["num_hidden_layers"])
    _chat_template(header)
    return header, config


def _describe(gguf: Path, folder: Path, models_dir: Path, name: str) -> JsonObject:
    header, config = check_gguf(gguf)
    tokenizer = build_tokenizer(header)
    description = {
        "format": _FORMAT,
        "name": name,
        "context_window": config["max_position_embeddings"],
        "chat_template": _chat_template(header),
        "bos_token": token_text(header, "bos"),
        "eos_token": token_text(header, "eos"),
        "eos_token_ids": end_ids(header),
    }
    config["bos_token_id"] = header.metadata.get("tokenizer.ggml.bos_token_id")
    config["eos_token_id"] = description["eos_token_ids"]
    with private_folder(models_dir) as private:
        whole = private / "whole"
        whole.mkdir()
        (whole / "config.json").write_text(json.dumps(config, indent=1))
        tokenizer.save(str(whole / "tokenizer.json"))
        (whole / DESCRIPTION).write_text(json.dumps(description, indent=1))
        publish(whole, folder)
    return read_object(folder / DESCRIPTION)


def _chat_template(header: GgufHeader) -> str:
    template = header.text("tokenizer.chat_template", "")
    if not template:
        raise ModelUnusable(
            f"{header.path.name} has no chat template, so it is probably a base model. Choose its instruct "
            "or chat version."
        )
    return template
