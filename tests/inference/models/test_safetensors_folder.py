from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from inference.errors import ModelUnusable
from inference.types import SamplingParams
from tests.inference.models.conftest import Preparing
from tests.inference.models.examples import TEMPLATE, write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tiny-model"


class Canary:
    """Unpickled, it would make a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def edit(file: Path, **changes: Any) -> None:
    content = json.loads(file.read_text())
    for key, value in changes.items():
        if value is None:
            content.pop(key, None)
        else:
            content[key] = value
    file.write_text(json.dumps(content))


def test_a_whole_folder_is_described(folder: Path, preparing: Preparing) -> None:
    model = preparing(write_folder(folder))
    assert model.folder == folder
    assert model.gguf is None
    assert (model.name, model.source) == ("tiny-model", str(folder))
    assert model.context_window == 128
    assert model.chat_template == TEMPLATE
    assert (model.bos_token, model.eos_token, model.eos_token_ids) == ("<|im_start|>", "<|im_end|>", (2,))
    assert model.defaults == SamplingParams(temperature=0.7, top_p=0.9)
    assert model.tokenizer_file.is_file()


def test_converted_weights_stay_out_of_the_persons_folder(folder: Path, preparing: Preparing) -> None:
    first = preparing(write_folder(folder)).converted_folder
    assert first.is_relative_to(preparing.models_dir)
    assert preparing(folder).converted_folder == first
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert preparing(folder).converted_folder != first


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        ({"eos_token_id": 0}, {"eos_token_id": 1}, (0, 2)),
        ({"eos_token_id": [2, 0]}, {"eos_token_id": 1}, (2, 0)),
        ({"eos_token_id": None}, {"eos_token_id": [1, 0]}, (1, 0, 2)),
        ({"eos_token_id": None}, {"eos_token_id": None}, (2,)),
    ],
)
def test_eos_ids_come_from_the_first_file_that_has_them(
    folder: Path, preparing: Preparing, generation: Any, config: Any, expected: tuple[int, ...]
) -> None:
    write_folder(folder, generation_config=generation, config=config)
    assert preparing(folder).eos_token_ids == expected


def test_a_model_that_never_ends_is_refused(folder: Path, preparing: Preparing) -> None:
    nothing = {"eos_token_id": None}
    write_folder(folder, generation_config=nothing, config=nothing, tokenizer_config={"eos_token": None})
    with pytest.raises(ModelUnusable, match="no end-of-sequence token"):
        preparing(folder)


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        ({"temperature": 0.6, "top_p": 0.95, "top_k": 20}, SamplingParams(0.6, 0.95, 20)),
        ({"top_p": 0.8}, SamplingParams(1.0, 0.8, 0)),
        ({"min_p": 0.1}, SamplingParams(min_p=0.1)),
        ({"temperature": 0.6, "repetition_penalty": 1.1}, SamplingParams(0.6, repetition_penalty=1.1)),
        ({"repetition_penalty": 1.1}, SamplingParams(0.7, 0.9, repetition_penalty=1.1)),
        ({"do_sample": False, "temperature": 0.6}, SamplingParams(0.0)),
        ({"do_sample": False, "repetition_penalty": 1.2}, SamplingParams(0.0, repetition_penalty=1.2)),
        ({"temperature": None, "top_p": True, "min_p": "0.1"}, SamplingParams(0.7, 0.9)),
    ],
)
def test_sampling_defaults_are_the_publishers(
    folder: Path, preparing: Preparing, generation: Any, expected: SamplingParams
) -> None:
    assert preparing(write_folder(folder, generation_config=generation)).defaults == expected


@pytest.mark.parametrize(
    ("generation", "words"),
    [
        ({"temperature": 99}, "temperature is 99; it must be from 0 to 5"),
        ({"top_k": -1}, "top_k is -1; it must be a whole number from 0"),
        ({"top_k": float("inf")}, "top_k is inf"),
        ({"min_p": 1.5}, "min_p is 1.5; it must be from 0 to 1"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0; it must be from 0.1 to 10"),
        ({"do_sample": False, "repetition_penalty": -1}, "repetition_penalty is -1"),
    ],
)
def test_sampling_defaults_out_of_range_are_refused_with_file_and_range(
    folder: Path, preparing: Preparing, generation: Any, words: str
) -> None:
    write_folder(folder, generation_config=generation)
    with pytest.raises(ModelUnusable, match=words) as refusal:
        preparing(folder)
    assert str(folder / "generation_config.json") in str(refusal.value)


def test_a_template_file_wins_over_the_tokenizers(folder: Path, preparing: Preparing) -> None:
    write_folder(folder)
    (folder / "chat_template.jinja").write_text("{{ 1 }}")
    assert preparing(folder).chat_template == "{{ 1 }}"


def test_of_named_templates_the_default_is_taken(folder: Path, preparing: Preparing) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "chat"}]
    assert preparing(write_folder(folder, tokenizer_config={"chat_template": named})).chat_template == "chat"


def test_a_base_model_is_refused(folder: Path, preparing: Preparing) -> None:
    write_folder(folder, tokenizer_config={"chat_template": None})
    with pytest.raises(ModelUnusable, match="no chat template"):
        preparing(folder)


def test_the_context_window_may_be_nested(folder: Path, preparing: Preparing) -> None:
    config = {"max_position_embeddings": None, "text_config": {"max_position_embeddings": 4096}}
    assert preparing(write_folder(folder, config=config)).context_window == 4096


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(folder: Path, preparing: Preparing, missing: str) -> None:
    (write_folder(folder) / missing).unlink()
    with pytest.raises(ModelUnusable, match=missing):
        preparing(folder)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused_with_numbers(folder: Path, preparing: Preparing, kept: int) -> None:
    file = write_folder(folder) / "model.safetensors"
    content = file.read_bytes()[:kept]
    file.write_bytes(content)
    with pytest.raises(ModelUnusable, match=f"{len(content):,} bytes"):
        preparing(folder)


def test_a_file_with_more_than_its_header_says_is_refused(folder: Path, preparing: Preparing) -> None:
    with (write_folder(folder) / "model.safetensors").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ModelUnusable, match="header describes"):
        preparing(folder)


@pytest.mark.parametrize(
    "header", [b"not json", b'{"t": 1}', b"[" * 100_000, b'{"t": {"data_offsets": ["0", 4]}}', b"[]"]
)
def test_a_hostile_header_is_refused(folder: Path, preparing: Preparing, header: bytes) -> None:
    file = write_folder(folder) / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelUnusable, match="header"):
        preparing(folder)


def write_index(folder: Path, *names: str) -> None:
    weight_map = {f"tensor.{index}": name for index, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_a_missing_shard_is_named(folder: Path, preparing: Preparing) -> None:
    write_index(write_folder(folder), "model.safetensors", "model-2.safetensors")
    with pytest.raises(ModelUnusable, match=r"1 of 2 weight files, first model-2\.safetensors"):
        preparing(folder)


@pytest.mark.parametrize(
    "name", ["../up/model.safetensors", "/etc/passwd", "weights.bin", "..\\m.safetensors"]
)
def test_an_index_cannot_point_elsewhere(folder: Path, preparing: Preparing, name: str) -> None:
    write_index(write_folder(folder), name)
    with pytest.raises(ModelUnusable, match="only .safetensors files beside it"):
        preparing(folder)


@pytest.mark.row(28)
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "generation_config.json"])
def test_a_models_own_code_is_refused(folder: Path, preparing: Preparing, file: str) -> None:
    write_folder(folder)
    edit(folder / file, auto_map={"AutoModelForCausalLM": "modeling_tiny.TinyForCausalLM"})
    with pytest.raises(ModelUnusable, match=f"{file}.*auto_map"):
        preparing(folder)


@pytest.mark.row(28)
def test_code_in_a_nested_configuration_is_refused(folder: Path, preparing: Preparing) -> None:
    nested = {"text_config": {"decoder": [{"auto_map": {"AutoConfig": "x.Y"}}]}}
    with pytest.raises(ModelUnusable, match="auto_map"):
        preparing(write_folder(folder, config=nested))


@pytest.mark.row(28)
@pytest.mark.parametrize(
    "key", ["_attn_implementation_internal", "attn_implementation", "_experts_implementation_internal"]
)
def test_a_kernel_from_another_repository_is_refused(folder: Path, preparing: Preparing, key: str) -> None:
    with pytest.raises(ModelUnusable, match=key):
        preparing(write_folder(folder, config={key: "someone/kernel"}))


def test_an_ordinary_attention_implementation_is_accepted(folder: Path, preparing: Preparing) -> None:
    preparing(write_folder(folder, config={"_attn_implementation": "sdpa"}))


@pytest.mark.row(28)
def test_pickle_only_folders_are_refused_unread(folder: Path, preparing: Preparing, tmp_path: Path) -> None:
    write_folder(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Canary(tmp_path / "canary")))
    with pytest.raises(ModelUnusable, match="pickle"):
        preparing(folder)
    assert not (tmp_path / "canary").exists()


@pytest.mark.row(28)
def test_pickles_beside_safetensors_stay_unread(folder: Path, preparing: Preparing, tmp_path: Path) -> None:
    write_folder(folder)
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        (folder / name).write_bytes(pickle.dumps(Canary(tmp_path / "canary")))
    preparing(folder)
    assert not (tmp_path / "canary").exists()


def test_other_quantizations_and_adapters_are_refused(folder: Path, preparing: Preparing) -> None:
    with pytest.raises(ModelUnusable, match="'awq'"):
        preparing(write_folder(folder, config={"quantization_config": {"quant_method": "awq"}}))
    (write_folder(folder) / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelUnusable, match="adapter"):
        preparing(folder)


@pytest.mark.parametrize("content", ["[" * 100_000, "[1]", "{", "\x00"])
def test_hostile_json_is_refused(folder: Path, preparing: Preparing, content: str) -> None:
    (write_folder(folder) / "config.json").write_text(content)
    with pytest.raises(ModelUnusable, match=r"config\.json"):
        preparing(folder)
