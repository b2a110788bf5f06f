"""The native backend: against transformers in float32, and against itself in every other order of work."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import bitsandbytes
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from transformers import AutoModelForCausalLM

from inference.backends.native.backend import NativeBackend
from inference.backends.native.decoder import Decoder, Unfit
from inference.backends.native.gguf_source import GgufSource
from inference.backends.native.library import SPAN
from inference.block_files import StoredBlock, pack, unpack
from inference.errors import InvalidParams
from inference.models.gguf_header import TensorInfo, read_header
from inference.models.prepared import PreparedModel
from tests.inference.backends.native.models import FAMILIES, SHAPE, reference, write_model
from tests.inference.backends.tiny import write_tiny_llama
from tests.inference.models.conftest import Preparing
from tests.inference.models.examples import tiny_config

PROMPT = [int(i) for i in np.random.default_rng(1).integers(3, 320, 3 * SPAN + 20)]


def all_logits(backend: NativeBackend, ids: list[int]) -> np.ndarray:
    return backend.decode([backend.create_kv()], [ids])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def divergence(expected: np.ndarray, found: np.ndarray) -> float:
    """Mean KL(expected || found) in nats a token."""
    p, q = log_softmax(expected), log_softmax(found)
    return float((np.exp(p) * (p - q)).sum(-1).mean())


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        *((family, GGMLQuantizationType.Q4_1) for family in FAMILIES),
        ("llama", GGMLQuantizationType.Q4_0),
        ("llama", GGMLQuantizationType.Q8_0),
    ],
)
def test_every_family_predicts_as_transformers_does(
    library: ctypes.CDLL, preparing: Preparing, tmp_path: Path, family: str, kind: GGMLQuantizationType
) -> None:
    gguf = write_model(tmp_path / "m.gguf", family, kind)
    prepared = preparing(gguf)
    ids = PROMPT[:200]
    with torch.inference_mode():
        expected = reference(prepared.folder, gguf)(torch.tensor([ids])).logits[0].numpy()
    backend = NativeBackend(prepared)
    found = all_logits(backend, ids)
    backend.close()
    assert expected.std() > 0.2
    assert divergence(np.zeros_like(expected), expected) > 0.02  # it does predict something
    assert divergence(expected, found) < 1e-3  # what rounding activations to int8 costs
    np.testing.assert_allclose(found, expected, atol=0.15 * expected.std())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedModel:
    folder = tmp_path_factory.mktemp("native")
    return Preparing(folder / "models")(write_model(folder / "m.gguf", "qwen3"))


@pytest.fixture(scope="module")
def backend(library: ctypes.CDLL, prepared: PreparedModel) -> Iterator[NativeBackend]:
    backend = NativeBackend(prepared, threads=2)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def expected(backend: NativeBackend) -> np.ndarray:
    """Logits after every token of the prompt, one decode step each."""
    kv = backend.create_kv()
    return np.concatenate([backend.decode([kv], [[token]]) for token in PROMPT])


@pytest.mark.parametrize("chunk", [1, 7, 16, 100, 404])
def test_prefill_in_any_chunks_gives_exactly_what_decode_gives(
    backend: NativeBackend, expected: np.ndarray, chunk: int
) -> None:
    kv = backend.create_kv()
    logits = None
    for start in range(0, len(PROMPT), chunk):
        last = start + chunk >= len(PROMPT)
        logits = backend.prefill(kv, PROMPT[start : start + chunk], logits=last)
    assert kv.length == len(PROMPT)
    np.testing.assert_array_equal(logits, expected[-1])


def test_sequences_decode_side_by_side_exactly_as_alone(backend: NativeBackend, expected: np.ndarray) -> None:
    lengths = (3, 2 * SPAN - 1, SPAN, 50)
    runs = (1, 4, 1, 20)
    kvs = [backend.create_kv() for _ in lengths]
    for kv, length in zip(kvs, lengths, strict=True):
        backend.prefill(kv, PROMPT[:length], logits=False)
    rows = backend.decode(kvs, [PROMPT[n : n + run] for n, run in zip(lengths, runs, strict=True)])
    alone = [expected[n : n + run] for n, run in zip(lengths, runs, strict=True)]
    np.testing.assert_array_equal(rows, np.concatenate(alone))


def test_many_runs_go_through_in_several_steps(backend: NativeBackend, expected: np.ndarray) -> None:
    lengths = (100, 300, 56, 200, 1)
    kvs = [backend.create_kv() for _ in lengths]
    rows = backend.decode(kvs, [PROMPT[:length] for length in lengths])
    np.testing.assert_array_equal(rows, np.concatenate([expected[:length] for length in lengths]))


def test_a_draft_that_was_wrong_is_forgotten(backend: NativeBackend, expected: np.ndarray) -> None:
    kv = backend.create_kv()
    backend.prefill(kv, PROMPT[:140], logits=False)
    backend.decode([kv], [[*PROMPT[140:143], 7, 8]])
    backend.truncate(kv, 143)
    np.testing.assert_array_equal(backend.decode([kv], [PROMPT[143:144]])[0], expected[143])


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_nothing(
    prepared: PreparedModel, backend: NativeBackend, expected: np.ndarray, threads: int
) -> None:
    other = NativeBackend(prepared, threads=threads)
    kv = other.create_kv()
    found = np.concatenate([other.decode([kv], [PROMPT[:256]]), other.decode([kv], [PROMPT[256:]])])
    other.close()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("cut", [32, 45, 150])
def test_copied_blocks_stored_and_read_back_continue_exactly(
    backend: NativeBackend, expected: np.ndarray, cut: int
) -> None:
    """Blocks as the prefix cache cuts them, the last one used in part; and one that begins within a tile."""
    kv = backend.create_kv()
    backend.prefill(kv, PROMPT[:160], logits=False)
    parts = []
    for start in (*range(0, 128, 32), 128):
        block = backend.copy_block(kv, start, min(start + 32, 160))
        arrays = dict(backend.block_to_arrays(block))
        stored = StoredBlock("key", "parent", tuple(PROMPT[start : start + 32]))
        again = backend.block_from_arrays(unpack(pack(stored, arrays), stored))
        assert (again.length, again.nbytes) == (32, 32 * backend.description.kv_bytes_per_token)
        used = min(32, cut - start)
        if used > 0:
            parts.append((again, used))
    fresh = backend.create_kv()
    backend.append_blocks(fresh, parts)
    assert fresh.length == cut
    odd = backend.copy_block(kv, cut, cut + 9)
    backend.append_blocks(fresh, [(odd, 9)])
    row = backend.decode([fresh], [PROMPT[cut + 9 : cut + 10]])[0]
    np.testing.assert_array_equal(row, expected[cut + 9])


def test_moving_blocks_gives_whole_spans_of_the_sequence_back(backend: NativeBackend) -> None:
    kv = backend.create_kv()
    backend.prefill(kv, PROMPT[: SPAN + 40], logits=False)
    copies = [backend.copy_block(kv, start, start + 32).data for start in range(0, SPAN + 32, 32)]
    moved = [backend.move_block(kv, start, start + 32).data for start in range(0, SPAN + 32, 32)]
    np.testing.assert_array_equal(moved, copies)
    assert all(block.any() for block in copies)
    assert not any(backend.copy_block(kv, start, start + 32).data.any() for start in range(0, SPAN, 32))
    np.testing.assert_array_equal(backend.copy_block(kv, SPAN, SPAN + 32).data, copies[-1])


def test_a_block_of_another_model_is_refused(backend: NativeBackend) -> None:
    kv = backend.create_kv()
    backend.prefill(kv, PROMPT[:32], logits=False)
    arrays = dict(backend.block_to_arrays(backend.copy_block(kv, 0, 32)))
    for wrong in (
        {},
        {"keys": arrays["keys"]},
        {**arrays, "values": arrays["values"][:1]},
        {**arrays, "keys": arrays["keys"].view(np.int16)},
    ):
        with pytest.raises(ValueError, match=r"block of this model|not keys and values"):
            backend.block_from_arrays(wrong)


def test_a_cache_outgrows_its_first_room(backend: NativeBackend, expected: np.ndarray) -> None:
    kv = backend.create_kv()
    kv._data, kv._capacity = kv._data[: len(kv._data) * SPAN // kv._capacity], SPAN
    backend.prefill(kv, PROMPT[:100], logits=False)
    backend.prefill(kv, PROMPT[100:300], logits=False)
    np.testing.assert_array_equal(backend.decode([kv], [PROMPT[300:301]])[0], expected[300])


def test_a_token_that_the_model_does_not_have_is_refused(backend: NativeBackend) -> None:
    with pytest.raises(InvalidParams):
        backend.decode([backend.create_kv()], [[320]])


def test_weights_in_other_formats_are_not_taken(preparing: Preparing, tmp_path: Path) -> None:
    gguf = write_model(tmp_path / "m.gguf", "llama", GGMLQuantizationType.Q5_0)
    with pytest.raises(Unfit, match="Q5_0"):
        NativeBackend(preparing(gguf))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("blk.0.attn_q.weight", (320, 64)),
        ("blk.1.ffn_norm.weight", (32,)),
        ("blk.1.attn_k.bias", (32,)),
        ("blk.7.attn_v.weight", (64, 64)),
    ],
)
def test_a_file_whose_tensors_do_not_fit_each_other_is_not_taken(
    preparing: Preparing, tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    prepared = preparing(write_model(tmp_path / "m.gguf", "llama"))
    config = json.loads((prepared.folder / "config.json").read_text())
    assert prepared.gguf is not None
    header, decoder = read_header(prepared.gguf), Decoder.from_config(config)
    size = 20 * math.prod(shape) // 32
    odd = TensorInfo(name, shape, 3 if len(shape) > 1 else 0, 0, size)
    damaged = replace(header, tensors={**header.tensors, name: odd})
    with pytest.raises(Unfit, match="has the shape"):
        GgufSource(damaged, decoder)
    first = next(iter(header.tensors))
    without = {key: tensor for key, tensor in header.tensors.items() if key != first}
    with pytest.raises(Unfit, match="is missing"):
        GgufSource(replace(header, tensors=without), decoder)


def test_a_config_of_impossible_numbers_is_not_taken() -> None:
    for name, value in (("num_attention_heads", 0), ("hidden_size", "many"), ("vocab_size", 2**40)):
        with pytest.raises(Unfit, match=name):
            Decoder.from_config({**tiny_config(), **SHAPE, name: value})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_safetensors_folder_runs_in_nf4_as_close_as_its_codebook_allows(
    library: ctypes.CDLL, preparing: Preparing, tmp_path: Path, dtype: torch.dtype
) -> None:
    """Against transformers on the weights that bitsandbytes' NF4 makes of them."""
    prepared = preparing(write_tiny_llama(tmp_path / "tiny"))
    model = AutoModelForCausalLM.from_pretrained(prepared.folder, dtype=dtype).eval()
    model.save_pretrained(prepared.folder)
    for name, module in model.float().named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            packed, state = bitsandbytes.functional.quantize_4bit(
                module.weight.data, blocksize=64, quant_type="nf4"
            )
            module.weight.data = bitsandbytes.functional.dequantize_4bit(packed, state)
    ids = [token % 256 for token in PROMPT[:100]]
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    backend = NativeBackend(prepared)
    assert backend.description.quantization.startswith("NF4 in blocks of 64: 0 of 0 million weights")
    found = all_logits(backend, ids)
    backend.close()
    assert divergence(expected, found) < 0.01
