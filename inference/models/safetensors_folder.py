"""A folder of safetensors weights in transformers' layout: checked, and described as a PreparedModel."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.errors import InvalidParams, ModelUnusable
from inference.models.json_files import JsonObject, read_object
from inference.models.prepared import PreparedModel
from inference.models.safetensors_files import weight_files
from inference.models.safety import refuse_code
from inference.types import SamplingParams

DEFAULT_SAMPLING = SamplingParams(temperature=0.7, top_p=0.9)
"""For models whose publisher recommends nothing."""
CUTS = ("temperature", "top_p", "top_k", "min_p")
"""What a publisher recommends together: one of them alone means that the others are off."""


def prepare_folder(folder: Path, *, models_dir: Path, name: str, source: str) -> PreparedModel:
    """Check every file that will be loaded; pickle files and others are left alone, never opened.

    Raises ModelUnusable with the reason. Derived files go below `models_dir`, under a name that changes
    with the weights' path, sizes and times.
    """
    config = _required(folder, "config.json")
    tokenizer_config = read_object(folder / "tokenizer_config.json")
    generation = read_object(folder / "generation_config.json")
    for file, content in (
        ("config.json", config),
        ("tokenizer_config.json", tokenizer_config),
        ("generation_config.json", generation),
    ):
        refuse_code(content, f"{folder / file}")
    _refuse_unsupported(folder, config)
    weights = weight_files(folder)
    tokenizer = _required(folder, "tokenizer.json")
    special = {**read_object(folder / "special_tokens_map.json"), **tokenizer_config}
    bos, eos = _token_text(special.get("bos_token")), _token_text(special.get("eos_token"))
    return PreparedModel(
        folder=folder,
        gguf=None,
        name=name,
        source=source,
        context_window=_context_window(folder, config),
        chat_template=_chat_template(folder, tokenizer_config),
        bos_token=bos,
        eos_token=eos,
        eos_token_ids=_eos_ids(folder, (generation, config, _text_config(config)), tokenizer, eos),
        defaults=_sampling(folder / "generation_config.json", generation),
        work_folder=models_dir / f"folder-{_identity(folder, weights)}",
    )


def _required(folder: Path, name: str) -> JsonObject:
    content = read_object(folder / name)
    if not content:
        hint = " Only fast tokenizers are supported." if name == "tokenizer.json" else ""
        raise ModelUnusable(f"{folder} has no {name}, which a model folder needs.{hint}")
    return content


def _refuse_unsupported(folder: Path, config: JsonObject) -> None:
    if (folder / "adapter_config.json").exists():
        raise ModelUnusable(
            f"{folder} holds an adapter. Merge it into its base model and give the merged folder."
        )
    quantization = config.get("quantization_config")
    if isinstance(quantization, dict) and quantization.get("quant_method") != "bitsandbytes":
        raise ModelUnusable(
            f"{folder} is quantized with {quantization.get('quant_method')!r}, which Ondol cannot run. "
            "Choose the model's unquantized weights: Ondol quantizes them itself."
        )


def _text_config(config: JsonObject) -> JsonObject:
    nested = config.get("text_config")
    return nested if isinstance(nested, dict) else {}


def _context_window(folder: Path, config: JsonObject) -> int:
    for place in (config, _text_config(config)):
        value = place.get("max_position_embeddings")
        if isinstance(value, int) and value > 0:
            return value
    raise ModelUnusable(
        f"{folder / 'config.json'} gives no max_position_embeddings, so its context is unknown."
    )


def _chat_template(folder: Path, tokenizer_config: JsonObject) -> str:
    """chat_template.jinja before tokenizer_config.json, as transformers has it; of several, "default"."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ModelUnusable(f"{file} is not UTF-8 text ({error}).") from error
    template = tokenizer_config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    if isinstance(template, str) and template:
        return template
    raise ModelUnusable(
        f"{folder} has no chat template, so it is probably a base model. Choose its instruct or chat version."
    )


def _token_text(value: object) -> str:
    """A token is written as its text, or as an object that holds it as `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _eos_ids(
    folder: Path, places: tuple[JsonObject, ...], tokenizer: JsonObject, eos: str
) -> tuple[int, ...]:
    """The first place that names any, joined with the tokenizer's own EOS text."""
    ids: list[int] = []
    for place in places:
        value = place.get("eos_token_id")
        listed = value if isinstance(value, list) else [value]
        ids = [item for item in listed if isinstance(item, int)]
        if ids:
            break
    ids += [token for token in [_token_id(tokenizer, eos)] if token is not None]
    if not ids:
        raise ModelUnusable(f"{folder} names no end-of-sequence token, so its replies would never end.")
    return tuple(dict.fromkeys(ids))


def _token_id(tokenizer: JsonObject, text: str) -> int | None:
    added: Any = tokenizer.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and token.get("content") == text and isinstance(token.get("id"), int):
            return int(token["id"])
    return None


def _sampling(file: Path, generation: JsonObject) -> SamplingParams:
    """What generation_config.json recommends; a missing part means "off", as in transformers.

    Raises ModelUnusable with the range for a value that is out of it.
    """
    given = {name: generation.get(name) for name in (*CUTS, "repetition_penalty")}
    known: dict[str, Any] = {name: value for name, value in given.items() if _is_number(value)}
    if generation.get("do_sample") is False:
        known = {"temperature": 0.0} | {k: v for k, v in known.items() if k == "repetition_penalty"}
    try:
        return SamplingParams(**known) if known.keys() & set(CUTS) else replace(DEFAULT_SAMPLING, **known)
    except InvalidParams as error:
        raise ModelUnusable(f"In {file}, {error} Correct it there, or remove it.") from error


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _identity(folder: Path, weights: tuple[Path, ...]) -> str:
    parts = [str(folder.resolve())]
    for file in (folder / "config.json", *weights):
        stat = file.stat()
        parts.append(f"{file.name} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
