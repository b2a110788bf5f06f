"""From a GGUF header's vocabulary to the `tokenizers` library's tokenizer.json.

Byte-level BPE only. `tokenizer.ggml.pre` names how text is split before merging; the rules are those of the
models' own tokenizer.json files. No post-processor: chat templates write the BOS token themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inference.errors import ModelUnusable
from inference.models.gguf_header import GgufHeader

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONTROL, _USER_DEFINED = 3, 4

# One alternative a line: contractions, letters, digits, punctuation, line breaks, spaces.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+"
    r"|\p{{N}}{digits}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_PRE_TYPES = ("default", "gpt-2", "smollm", "llama-bpe", "qwen2")

# llama.cpp ends a reply at any of these control tokens, whatever the EOS is (src/llama-vocab.cpp).
_END_TEXTS = frozenset(
    ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>")
)


def build_tokenizer(header: GgufHeader) -> Tokenizer:
    """The tokenizer. ModelUnusable unless it is byte-level BPE whose vocabulary and merges fit together."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    model, pre = header.text("tokenizer.ggml.model"), header.text("tokenizer.ggml.pre", "default")
    if model != "gpt2" or pre not in _PRE_TYPES:
        raise ModelUnusable(
            f"{header.path.name} has a tokenizer of kind {model!r}, splitting rule {pre!r}; supported are "
            f"'gpt2' with {', '.join(_PRE_TYPES)}. Try the model's safetensors files."
        )
    tokens, kinds = header.items("tokenizer.ggml.tokens"), token_kinds(header)
    merges = [tuple(str(merge).split(" ", 1)) for merge in header.items("tokenizer.ggml.merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    try:
        # Llama 3 takes a word that is a token as it is, even where its merges lead elsewhere.
        bpe = models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre == "llama-bpe")  # type: ignore[arg-type]
    except Exception as error:
        raise ModelUnusable(
            f"{header.path.name} has merges that do not fit its vocabulary ({error})."
        ) from error
    tokenizer = Tokenizer(bpe)
    _set_splitting(tokenizer, pre)
    tokenizer.decoder = decoders.ByteLevel()
    for kind, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        texts = [token for token, its in zip(tokens, kinds, strict=True) if its == kind and token]
        tokenizer.add_tokens([AddedToken(text, special=special, normalized=False) for text in texts])
    return tokenizer


def _set_splitting(tokenizer: Any, pre: str) -> None:
    from tokenizers import Regex, normalizers, pre_tokenizers

    if pre in ("default", "gpt-2"):
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        return
    if pre == "smollm":
        first = pre_tokenizers.Digits(individual_digits=True)
        rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, rest])
        return
    pattern = _SPLIT.format(digits="{1,3}" if pre == "llama-bpe" else "")
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, rest])
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()


def token_kinds(header: GgufHeader) -> tuple[int, ...]:
    """One of ggml's token types for each token."""
    tokens, kinds = header.items("tokenizer.ggml.tokens"), header.items("tokenizer.ggml.token_type")
    if len(tokens) != len(kinds):
        raise ModelUnusable(f"{header.path.name} has {len(tokens):,} tokens, but types for {len(kinds):,}.")
    return kinds


def token_text(header: GgufHeader, name: str) -> str:
    """The text of the token that `tokenizer.ggml.<name>_token_id` names, or ""."""
    tokens = header.items("tokenizer.ggml.tokens")
    index = header.integer(f"tokenizer.ggml.{name}_token_id", -1)
    return str(tokens[index]) if 0 <= index < len(tokens) else ""


def end_ids(header: GgufHeader) -> tuple[int, ...]:
    """Every id that ends a reply: the file's EOS first, its end of turn, and well-known control tokens."""
    tokens, kinds = header.items("tokenizer.ggml.tokens"), token_kinds(header)
    named = [header.integer(f"tokenizer.ggml.{name}_token_id", -1) for name in ("eos", "eot", "eom")]
    known = [
        index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind == _CONTROL and token in _END_TEXTS
    ]
    ids = tuple(dict.fromkeys(index for index in named + known if 0 <= index < len(tokens)))
    if not ids:
        raise ModelUnusable(
            f"{header.path.name} names no end-of-sequence token, so its replies would never end."
        )
    return ids
