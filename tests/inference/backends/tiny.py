"""A tiny random Llama, written as the safetensors folder that people have."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.inference.doubles import CHATML, END, VOCAB_SIZE, byte_tokenizer

WINDOW = 256


def write_tiny_llama(folder: Path, *, seed: int = 0) -> Path:
    """Two layers of random weights with the byte tokenizer and ChatML; grouped-query attention as in
    SmolLM2.
    """
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW,
        eos_token_id=END,
        bos_token_id=None,
        pad_token_id=END,
        tie_word_embeddings=False,
        initializer_range=0.2,
    )
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = END
    model.save_pretrained(folder)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"chat_template": CHATML, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
