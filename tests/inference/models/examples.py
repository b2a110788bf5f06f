"""Small models written with the formats' own libraries, so that what Ondol reads was not written by Ondol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = [
    "the house is warm and the floor is warm too",
    "온돌은 따뜻하다",
    "in 2024 it's 15 degrees, isn't it?",
]


def smollm_tokenizer() -> Tokenizer:
    """A byte-level BPE with SmolLM's way of splitting, trained on a few sentences."""
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def permute(weights: np.ndarray, heads: int) -> np.ndarray:
    """How llama.cpp's conversion script reorders the rows of q and k of llama models."""
    rows = weights.shape[0]
    halves = weights.reshape(heads, 2, rows // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """transformers' parameter name to GGUF's."""
    stem, _, kind = name.rpartition(".")
    if stem.startswith("model.layers."):
        _, _, index, part = stem.split(".", 3)
        return f"blk.{index}.{GGUF_NAMES[part]}.{kind}"
    return f"{GGUF_NAMES[stem]}.{kind}"


def random_weights(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Parameters of a bias-free llama model, by their names in transformers."""
    noise = np.random.default_rng(7)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
    }
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
            f"{layer}.self_attn.q_proj.weight": (hidden, hidden),
            f"{layer}.self_attn.k_proj.weight": (keys, hidden),
            f"{layer}.self_attn.v_proj.weight": (keys, hidden),
            f"{layer}.self_attn.o_proj.weight": (hidden, hidden),
            f"{layer}.mlp.gate_proj.weight": (inner, hidden),
            f"{layer}.mlp.up_proj.weight": (inner, hidden),
            f"{layer}.mlp.down_proj.weight": (hidden, inner),
        }
    return {name: noise.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def tiny_config(vocab_size: int = 320) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab_size,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def write_gguf(
    path: Path,
    weights: dict[str, np.ndarray],
    *,
    arch: str = "llama",
    config: dict[str, Any] | None = None,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    model: str = "gpt2",
    pre: str = "smollm",
    template: str = TEMPLATE,
    permuted: bool = True,
    extra: dict[str, str | float] | None = None,
) -> Path:
    """`weights` (names of transformers) as llama.cpp would store them; matrices quantized to `kind`."""
    config = config or tiny_config()
    writer = GGUFWriter(path, arch)
    _add_shape(writer, config)
    for key, value in (extra or {}).items():
        if isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_float32(key, value)
    _add_vocabulary(writer, model, pre, template)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for name, values in weights.items():
        stored = gguf_name(name) if name.startswith(("model.", "lm_head.")) else name
        part = stored.split(".")[-2]
        if permuted and arch == "llama" and part in heads:
            values = permute(values, heads[part])
        if values.ndim == 2 and kind != GGMLQuantizationType.F32:
            writer.add_tensor(stored, quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_shape(writer: GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])


def _add_vocabulary(writer: GGUFWriter, model: str, pre: str, template: str) -> None:
    content = json.loads(smollm_tokenizer().to_str())["model"]
    tokens = sorted(content["vocab"], key=content["vocab"].__getitem__)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in content["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if template:
        writer.add_chat_template(template)


def write_folder(folder: Path, **changes: dict[str, Any]) -> Path:
    """A whole model folder. `changes` are merged into config, tokenizer_config and generation_config."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer_config = {
        "bos_token": "<|im_start|>",
        "eos_token": {"content": "<|im_end|>", "special": True},
        "chat_template": TEMPLATE,
    }
    contents: dict[str, dict[str, Any]] = {
        "config": tiny_config(),
        "tokenizer_config": tokenizer_config,
        "generation_config": {"eos_token_id": 2},
    }
    for name, content in contents.items():
        content |= changes.get(name, {})
        (folder / f"{name}.json").write_text(json.dumps(content))
    smollm_tokenizer().save(str(folder / "tokenizer.json"))
    save_file(random_weights(tiny_config()), folder / "model.safetensors")
    return folder
