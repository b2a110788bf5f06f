from __future__ import annotations

import json
import os
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, dequantize
from tokenizers import Tokenizer

from inference.errors import ModelUnusable
from inference.models.gguf_config import build_config, llama3_divisors
from inference.models.gguf_header import read_header
from inference.models.gguf_weights import hf_name, read_state_dict
from inference.types import SamplingParams
from tests.inference.models.conftest import Preparing
from tests.inference.models.examples import (
    TEMPLATE,
    TEXT,
    permute,
    random_weights,
    smollm_tokenizer,
    tiny_config,
    write_gguf,
)


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "Tiny-Chat.gguf", random_weights(tiny_config()))


def test_the_header_agrees_with_the_gguf_package(gguf: Path) -> None:
    header, reader = read_header(gguf), GGUFReader(gguf)
    fields = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    ours = {key: list(value) if isinstance(value, tuple) else value for key, value in header.metadata.items()}
    assert ours == fields
    theirs = {t.name: (t.data_offset, t.n_bytes, tuple(reversed(t.shape.tolist()))) for t in reader.tensors}
    assert {t.name: (t.offset, t.size, t.shape) for t in header.tensors.values()} == theirs


def test_a_file_is_described(gguf: Path, preparing: Preparing) -> None:
    model = preparing(gguf)
    assert (model.name, model.source, model.gguf) == ("Tiny-Chat", str(gguf), gguf)
    assert model.context_window == 128
    assert model.chat_template == TEMPLATE
    assert (model.bos_token, model.eos_token, model.eos_token_ids) == ("<|im_start|>", "<|im_end|>", (2, 0))
    assert model.defaults == SamplingParams(temperature=0.7, top_p=0.9)
    assert model.converted_folder.parent.parent == preparing.models_dir


def test_the_next_start_does_not_read_the_file(gguf: Path, preparing: Preparing) -> None:
    first = preparing(gguf)
    preparing.reports.clear()
    stat = gguf.stat()
    gguf.write_bytes(b"\0" * stat.st_size)
    os.utime(gguf, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert preparing(gguf) == first
    assert preparing.reports == []


def test_a_replaced_file_is_described_anew(gguf: Path, preparing: Preparing) -> None:
    first = preparing(gguf)
    write_gguf(gguf, random_weights(tiny_config()), template="{{ messages }} and more")
    second = preparing(gguf)
    assert second.folder != first.folder
    assert second.chat_template == "{{ messages }} and more"


def test_the_tokenizer_is_the_one_that_was_stored(gguf: Path, preparing: Preparing) -> None:
    original, rebuilt = smollm_tokenizer(), Tokenizer.from_file(str(preparing(gguf).tokenizer_file))
    for text in [*TEXT, "<|im_start|>unseen 😀 words\n\n 3.14<|im_end|>"]:
        assert rebuilt.encode(text).tokens == original.encode(text).tokens
        assert rebuilt.encode(text).ids == original.encode(text).ids
        assert rebuilt.decode(rebuilt.encode(text).ids) == original.decode(original.encode(text).ids)


@pytest.mark.parametrize("pre", ["gpt-2", "default", "llama-bpe", "qwen2"])
def test_digits_are_split_as_the_rule_says(tmp_path: Path, preparing: Preparing, pre: str) -> None:
    gguf = write_gguf(tmp_path / "m.gguf", random_weights(tiny_config()), pre=pre)
    tokenizer = Tokenizer.from_file(str(preparing(gguf).tokenizer_file))
    pieces = [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str("It's 12345\n")]
    expected = {"llama-bpe": ["Ġ", "123", "45"], "qwen2": ["Ġ", "1", "2", "3", "4", "5"]}
    assert pieces == ["It", "'s", *expected.get(pre, ["Ġ12345"]), "Ċ"]


@pytest.mark.parametrize(("model", "pre"), [("llama", "default"), ("gpt2", "tekken"), ("bert", "default")])
def test_other_tokenizers_are_refused_by_name(
    tmp_path: Path, preparing: Preparing, model: str, pre: str
) -> None:
    gguf = write_gguf(tmp_path / "m.gguf", random_weights(tiny_config()), model=model, pre=pre)
    with pytest.raises(ModelUnusable, match=f"'{model}'.*'{pre}'"):
        preparing(gguf)


def test_weights_come_back_unpermuted_and_exact(gguf: Path) -> None:
    expected = random_weights(tiny_config())
    found = dict(read_state_dict(gguf))
    assert found.keys() == expected.keys()
    for name, values in found.items():
        assert values.flags.writeable
        assert values.flags.c_contiguous
        np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize(
    "kind", [GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0, GGMLQuantizationType.F16]
)
def test_quantized_weights_are_what_the_gguf_package_says(tmp_path: Path, kind: GGMLQuantizationType) -> None:
    gguf = write_gguf(tmp_path / "m.gguf", random_weights(tiny_config()), kind=kind)
    found = dict(read_state_dict(gguf))
    for tensor in GGUFReader(gguf).tensors:
        expected = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = hf_name(tensor.name, "llama")
        heads = 4 if "q_proj" in name else 2 if "k_proj" in name else None
        ours = permute(found[name], heads) if heads else found[name]
        np.testing.assert_array_equal(ours, expected.reshape(ours.shape))


def test_names_are_those_of_transformers() -> None:
    assert hf_name("blk.3.attn_q.bias", "qwen2") == "model.layers.3.self_attn.q_proj.bias"
    assert hf_name("blk.12.attn_k_norm.weight", "qwen3") == "model.layers.12.self_attn.k_norm.weight"
    assert hf_name("output.weight", "llama") == "lm_head.weight"
    for name, arch in [
        ("blk.0.attn_q_norm.weight", "llama"),
        ("blk.0.ffn_gate_exps.weight", "llama"),
        ("x", "qwen3"),
    ]:
        with pytest.raises(ModelUnusable, match="not known"):
            hf_name(name, arch)


def test_an_output_matrix_means_an_untied_head(tmp_path: Path, gguf: Path) -> None:
    assert build_config(read_header(gguf), None)["tie_word_embeddings"] is True
    weights = random_weights(tiny_config())
    untied = write_gguf(
        tmp_path / "untied.gguf", weights | {"lm_head.weight": weights["model.embed_tokens.weight"]}
    )
    assert build_config(read_header(untied), None)["tie_word_embeddings"] is False


def test_llama3_scaling_is_recognized_by_its_divisors(tmp_path: Path, preparing: Preparing) -> None:
    config = tiny_config() | {"rope_theta": 500_000.0}
    divisors = np.array(llama3_divisors(500_000.0, 8, 32.0), np.float32)
    assert divisors[0] == 1
    assert divisors[-1] == 32
    weights = random_weights(config) | {"rope_freqs.weight": divisors}
    model = preparing(write_gguf(tmp_path / "m.gguf", weights, config=config))
    rope = json.loads((model.folder / "config.json").read_text())["rope_parameters"]
    assert (rope["rope_type"], rope["factor"]) == ("llama3", 32.0)
    assert "rope_freqs.weight" not in dict(read_state_dict(tmp_path / "m.gguf"))
    weights["rope_freqs.weight"] = divisors + 1
    with pytest.raises(ModelUnusable, match="unknown way"):
        preparing(write_gguf(tmp_path / "other.gguf", weights, config=config))


def test_a_linear_scaling_becomes_configuration_and_others_are_refused(
    tmp_path: Path, preparing: Preparing
) -> None:
    weights = random_weights(tiny_config())
    extra: dict[str, str | float] = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    model = preparing(write_gguf(tmp_path / "linear.gguf", weights, extra=extra))
    rope = json.loads((model.folder / "config.json").read_text())["rope_parameters"]
    assert rope == {"rope_type": "linear", "rope_theta": 100_000.0, "factor": 4.0}
    with pytest.raises(ModelUnusable, match="'yarn'"):
        preparing(write_gguf(tmp_path / "yarn.gguf", weights, extra={"llama.rope.scaling.type": "yarn"}))


def test_other_architectures_are_refused_with_what_can_run(tmp_path: Path, preparing: Preparing) -> None:
    gguf = write_gguf(tmp_path / "m.gguf", random_weights(tiny_config()), arch="gemma3")
    with pytest.raises(ModelUnusable, match="'gemma3'.*llama, qwen2, qwen3"):
        preparing(gguf)


def test_a_base_model_is_refused(tmp_path: Path, preparing: Preparing) -> None:
    gguf = write_gguf(tmp_path / "m.gguf", random_weights(tiny_config()), template="")
    with pytest.raises(ModelUnusable, match="no chat template"):
        preparing(gguf)


def test_missing_and_unknown_tensors_are_named(tmp_path: Path, preparing: Preparing) -> None:
    weights = random_weights(tiny_config())
    without = {name: values for name, values in weights.items() if "layers.1.mlp.up" not in name}
    with pytest.raises(ModelUnusable, match=r"blk\.1\.ffn_up\.weight"):
        preparing(write_gguf(tmp_path / "less.gguf", without))
    with pytest.raises(ModelUnusable, match=r"blk\.0\.ssm_a\.weight"):
        preparing(
            write_gguf(tmp_path / "more.gguf", weights | {"blk.0.ssm_a.weight": np.ones(4, np.float32)})
        )


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" + b"\0" * 100])
def test_another_kind_of_file_is_refused(tmp_path: Path, preparing: Preparing, content: bytes) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelUnusable, match="no GGUF file"):
        preparing(file)


def test_a_file_cut_anywhere_is_refused(gguf: Path, preparing: Preparing, tmp_path: Path) -> None:
    content = gguf.read_bytes()
    cut = tmp_path / "cut.gguf"
    for kept in [24, 40, 100, 1_000, 5_000, len(content) // 2, len(content) - 33]:
        cut.write_bytes(content[:kept])
        with pytest.raises(ModelUnusable, match=f"{kept:,}.*cut short"):
            preparing(cut)
    assert not list(preparing.models_dir.iterdir())


def test_huge_counts_cost_nothing(tmp_path: Path, preparing: Preparing) -> None:
    file = tmp_path / "m.gguf"
    huge = 2**62
    key = struct.pack("<Q", 1) + b"k"
    for body in (
        struct.pack("<QQ", huge, 0),
        struct.pack("<QQ", 0, huge),
        struct.pack("<QQ", 0, 1) + key + struct.pack("<IIQ", 9, 4, huge),
        struct.pack("<QQ", 0, 1) + key + struct.pack("<IIQ", 9, 8, huge),
        struct.pack("<QQ", 0, 1) + struct.pack("<Q", huge),
    ):
        file.write_bytes(b"GGUF" + struct.pack("<I", 3) + body + b"\0" * 24)
        with pytest.raises(ModelUnusable):
            preparing(file)


@pytest.mark.parametrize("version", [1, 4, 3 << 24])
def test_other_versions_are_refused(tmp_path: Path, preparing: Preparing, version: int) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, 0))
    with pytest.raises(ModelUnusable, match=f"version {version}"):
        preparing(file)


def test_flipped_bytes_are_refused_or_read_but_never_crash(gguf: Path, tmp_path: Path) -> None:
    content = gguf.read_bytes()
    noise = np.random.default_rng(3)
    file = tmp_path / "m.gguf"
    for _ in range(200):
        damaged = bytearray(content)
        for at in noise.integers(4, 12_000, size=8):
            damaged[at] = int(noise.integers(256))
        file.write_bytes(damaged)
        with suppress(ModelUnusable):
            read_header(file)
