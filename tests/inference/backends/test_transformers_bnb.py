"""The general backend on a tiny random Llama, against transformers itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import bitsandbytes
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.backends.kv_memory import GrowingLayer
from inference.backends.transformers_bnb import TransformersBackend
from inference.block_files import StoredBlock, pack, unpack
from inference.errors import ModelUnusable
from inference.models.locate import prepare
from inference.models.prepared import PreparedModel
from inference.pacing import Pace
from inference.prefix_cache import PrefixCache
from inference.sampler import token_logprob
from inference.scoring import ScoreRequest, Scoring, ScoringRoom
from tests.inference.backends.tiny import WINDOW, write_tiny_llama
from tests.inference.doubles import VOCAB_SIZE, engine_config, no_progress

PROMPT = [int(i) for i in np.random.default_rng(1).integers(0, 256, 90)]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedModel:
    folder = write_tiny_llama(tmp_path_factory.mktemp("tiny"))
    return prepare(
        str(folder),
        models_dir=tmp_path_factory.mktemp("models"),
        progress=no_progress,
        cancelled=threading.Event(),
    )


@pytest.fixture(scope="module")
def backend(prepared: PreparedModel) -> Iterator[TransformersBackend]:
    config = engine_config(prepared.folder, compute_dtype="float32")
    backend = TransformersBackend.load(prepared, config, no_progress)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def reference(backend: TransformersBackend, prepared: PreparedModel) -> torch.nn.Module:
    """transformers' own float32 model, its linear layers set to what NF4 makes of them."""
    model = AutoModelForCausalLM.from_pretrained(prepared.folder, dtype=torch.float32).eval()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            packed, state = bitsandbytes.functional.quantize_4bit(
                module.weight.data, blocksize=64, quant_type="nf4"
            )
            module.weight.data = bitsandbytes.functional.dequantize_4bit(packed, state)
    return model


def expected_logits(reference: torch.nn.Module, ids: list[int]) -> np.ndarray:
    with torch.inference_mode():
        return reference(torch.tensor([ids]), use_cache=False).logits[0, -1].numpy()


@pytest.mark.parametrize("chunk", [1, 7, 32, 90])
def test_chunked_prefill_gives_the_logits_of_the_whole_prompt(
    backend: TransformersBackend, reference: torch.nn.Module, chunk: int
) -> None:
    kv = backend.create_kv()
    logits = None
    for start in range(0, len(PROMPT), chunk):
        last = start + chunk >= len(PROMPT)
        logits = backend.prefill(kv, PROMPT[start : start + chunk], logits=last)
    assert kv.length == len(PROMPT)
    assert logits is not None
    assert logits.shape == (VOCAB_SIZE,)
    np.testing.assert_allclose(logits, expected_logits(reference, PROMPT), atol=2e-4)


def test_decode_steps_give_the_logits_of_the_whole_text(
    backend: TransformersBackend, reference: torch.nn.Module
) -> None:
    kv = backend.create_kv()
    backend.prefill(kv, PROMPT[:40], logits=False)
    for position in range(40, 60):
        row = backend.decode([kv], [[PROMPT[position]]])[0]
        np.testing.assert_allclose(row, expected_logits(reference, PROMPT[: position + 1]), atol=2e-4)


def test_sequences_of_different_lengths_decode_side_by_side(
    backend: TransformersBackend, reference: torch.nn.Module
) -> None:
    assert backend.batches
    lengths = (3, 40, 17)
    kvs = [backend.create_kv() for _ in lengths]
    for kv, length in zip(kvs, lengths, strict=True):
        backend.prefill(kv, PROMPT[:length], logits=False)
    for step in range(5):
        rows = backend.decode(kvs, [[PROMPT[length + step]] for length in lengths])
        for row, length in zip(rows, lengths, strict=True):
            whole = PROMPT[: length + step + 1]
            np.testing.assert_allclose(row, expected_logits(reference, whole), atol=2e-4)


def test_a_step_takes_runs_of_tokens_and_forgets_what_was_wrong(
    backend: TransformersBackend, reference: torch.nn.Module
) -> None:
    kvs = [backend.create_kv(), backend.create_kv()]
    for kv, length in zip(kvs, (40, 5), strict=True):
        backend.prefill(kv, PROMPT[:length], logits=False)
    guess = [*PROMPT[40:43], 7, 8]
    rows = backend.decode(kvs, [guess, PROMPT[5:6]])
    whole = [[*PROMPT[:40], *guess[: count + 1]] for count in range(len(guess))]
    for row, ids in zip(rows, [*whole, PROMPT[:6]], strict=True):
        np.testing.assert_allclose(row, expected_logits(reference, ids), atol=2e-4)
    backend.truncate(kvs[0], 43)
    assert kvs[0].length == 43
    row = backend.decode(kvs[:1], [PROMPT[43:44]])[0]
    np.testing.assert_allclose(row, expected_logits(reference, PROMPT[:44]), atol=2e-4)


def test_copied_blocks_are_as_good_as_computed_ones(backend: TransformersBackend) -> None:
    computed = backend.create_kv()
    backend.prefill(computed, PROMPT[:64], logits=False)
    blocks = [backend.copy_block(computed, start, start + 32) for start in (0, 32)]
    pasted = backend.create_kv()
    backend.append_blocks(pasted, [(block, 32) for block in blocks])
    np.testing.assert_array_equal(
        backend.prefill(pasted, PROMPT[64:], logits=True), backend.prefill(computed, PROMPT[64:], logits=True)
    )


def test_part_of_a_block_can_be_used(backend: TransformersBackend, reference: torch.nn.Module) -> None:
    computed = backend.create_kv()
    backend.prefill(computed, PROMPT[:32], logits=False)
    pasted = backend.create_kv()
    backend.append_blocks(pasted, [(backend.copy_block(computed, 0, 32), 20)])
    other = [*PROMPT[:20], *PROMPT[50:60]]
    logits = backend.prefill(pasted, other[20:], logits=True)
    np.testing.assert_allclose(logits, expected_logits(reference, other), atol=2e-4)


def test_a_block_is_a_copy(backend: TransformersBackend) -> None:
    kv = backend.create_kv()
    backend.prefill(kv, PROMPT[:8], logits=False)
    block = backend.copy_block(kv, 0, 8)
    before = block.layers[0][0].clone()
    with torch.inference_mode():
        kv.cache.layers[0].keys.zero_()
    assert torch.equal(block.layers[0][0], before)
    heads, head_dim, layers, both, float32 = 2, 16, 2, 2, 4
    assert block.nbytes == 8 * heads * head_dim * layers * both * float32
    assert backend.description.kv_bytes_per_token == block.nbytes // 8


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_block_survives_a_file_bit_for_bit(prepared: PreparedModel, tmp_path: Path, dtype: str) -> None:
    backend = TransformersBackend.load(
        prepared, engine_config(prepared.folder, compute_dtype=dtype), no_progress
    )
    kv = backend.create_kv()
    backend.prefill(kv, PROMPT[:32], logits=False)
    block = backend.copy_block(kv, 3, 32)
    stored = StoredBlock("key", "parent", tuple(PROMPT[3:32]))
    read = backend.block_from_arrays(unpack(pack(stored, backend.block_to_arrays(block)), stored))
    assert (read.length, read.nbytes) == (29, block.nbytes)
    for pair, read_pair in zip(block.layers, read.layers, strict=True):
        for tensor, read_tensor in zip(pair, read_pair, strict=True):
            assert read_tensor.dtype is getattr(torch, dtype)
            assert torch.equal(tensor.view(torch.uint8), read_tensor.view(torch.uint8))
    backend.close()


@pytest.mark.parametrize("change", ["a layer less", "another dtype", "fewer tokens in one", "another shape"])
def test_a_block_that_does_not_fit_the_model_is_refused(backend: TransformersBackend, change: str) -> None:
    kv = backend.create_kv()
    backend.prefill(kv, PROMPT[:8], logits=False)
    arrays = dict(backend.block_to_arrays(backend.copy_block(kv, 0, 8)))
    keys = arrays["keys.1"]
    if change == "a layer less":
        del arrays["keys.1"]
    else:
        arrays["keys.1"] = {
            "another dtype": keys.astype(np.float16),
            "fewer tokens in one": keys[:, :4],
            "another shape": keys[0],
        }[change]
    with pytest.raises(ValueError, match="tokens|layers|no block"):
        backend.block_from_arrays(arrays)


def test_buffers_grow_without_changing_what_they_hold() -> None:
    layer = GrowingLayer()
    states = torch.randn(1, 2, 1_000, 4)
    for start in range(0, 1_000, 3):
        keys, values = layer.update(states[:, :, start : start + 3], -states[:, :, start : start + 3])
    assert torch.equal(keys, states)
    assert torch.equal(values, -states)
    assert layer.get_seq_length() == 1_000


def test_what_runs_is_described(backend: TransformersBackend) -> None:
    description = backend.description
    assert description.context_window == WINDOW
    assert description.vocab_size == VOCAB_SIZE
    assert description.compute_dtype == "float32"
    per_layer = 64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128
    embeddings, norms = 2 * VOCAB_SIZE * 64, 5 * 64
    assert description.parameters == 2 * per_layer + embeddings + norms
    assert "NF4 in blocks of 64" in description.quantization
    assert "not embeddings and head" in description.quantization


def test_a_model_without_attention_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=1, state_size=4)
    MambaForCausalLM(config).save_pretrained(tmp_path)
    prepared = replace(
        prepare(
            str(write_tiny_llama(tmp_path / "other")),
            models_dir=tmp_path,
            progress=no_progress,
            cancelled=threading.Event(),
        ),
        folder=tmp_path,
    )
    with pytest.raises(ModelUnusable):
        TransformersBackend.load(prepared, engine_config(tmp_path), no_progress)


def test_a_family_with_more_to_its_attention_decodes_one_by_one_and_right(tmp_path: Path) -> None:
    """Gemma 2 caps its scores and slides its window; the batched step knows neither."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=VOCAB_SIZE,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        sliding_window=8,
        max_position_embeddings=WINDOW,
        attn_logit_softcapping=2.0,
        initializer_range=0.2,
    )
    folder = write_tiny_llama(tmp_path / "tiny")
    Gemma2ForCausalLM(config).save_pretrained(folder)
    prepared = prepare(str(folder), models_dir=tmp_path, progress=no_progress, cancelled=threading.Event())
    backend = TransformersBackend.load(prepared, engine_config(folder, compute_dtype="float32"), no_progress)
    assert not backend.batches
    kvs = [backend.create_kv() for _ in range(2)]
    for kv, length in zip(kvs, (20, 33), strict=True):
        backend.prefill(kv, PROMPT[:length], logits=False)
    rows = backend.decode(kvs, [PROMPT[20:22], PROMPT[33:34]])
    for row, length in zip(rows, (21, 22, 34), strict=True):
        expected = backend.prefill(backend.create_kv(), PROMPT[:length], logits=True)
        np.testing.assert_allclose(row, expected, atol=2e-4)


def test_scores_are_those_of_one_forward_pass_of_transformers(
    backend: TransformersBackend, reference: torch.nn.Module
) -> None:
    prompt, reply = tuple(PROMPT[:50]), tuple(PROMPT[50:])
    room, ends = ScoringRoom(), []
    scoring = Scoring(backend, PrefixCache(0), Pace(16), room, WINDOW)
    room.put(ScoreRequest("s", prompt, reply, alternatives=4), ends.append)
    while scoring.step():
        pass
    found = ends[-1].scores
    with torch.inference_mode():
        logits = reference(torch.tensor([PROMPT]), use_cache=False).logits[0, 49:-1]
    expected = torch.log_softmax(logits.double(), dim=-1)
    rows = torch.arange(len(reply))
    np.testing.assert_allclose(found.logprobs, expected[rows, list(reply)].numpy(), atol=2e-4)
    np.testing.assert_allclose(found.top_logprobs, expected.topk(4).values.numpy(), atol=2e-4)
    for place, token in enumerate(reply):
        kv = backend.create_kv()
        row = backend.prefill(kv, [*prompt, *reply[:place]], logits=True)
        assert found.logprobs[place] == pytest.approx(token_logprob(row, token, 4).logprob, abs=2e-4)
