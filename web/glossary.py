"""The glossary's terms in their order, and what this machine has to say about each.

The paragraphs are written in each language by itself: `templates/learn/CODE.html` has a macro for each term,
called as its slug with _ for -. A slug is the term's anchor: links from anywhere rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from web.language import Language, msgid


@dataclass(frozen=True, slots=True)
class Term:
    """`name` is still to be translated; `see` are the slugs of terms that go with it."""

    slug: str
    name: str
    see: tuple[str, ...] = ()


GROUPS: tuple[tuple[str, tuple[Term, ...]], ...] = (
    (
        msgid("Three words that mislead"),
        (
            Term("inference", msgid("Inference"), ("serving", "prefill", "decode")),
            Term("token", msgid("Token"), ("tokenizer", "context-window")),
            Term("parameter", msgid("Parameter"), ("sampling-params", "quantization")),
        ),
    ),
    (
        msgid("How a reply comes about"),
        (
            Term("tokenizer", msgid("Tokenizer"), ("token", "embedding")),
            Term("embedding", msgid("Embedding"), ("attention",)),
            Term("attention", msgid("Attention: query, key, value"), ("kv-cache", "flash-attention")),
            Term("prefill", msgid("Prefill"), ("ttft", "prefix-cache")),
            Term("decode", msgid("Decode"), ("throughput", "speculative-decoding")),
            Term("sampling-params", msgid("Sampling parameters"), ("parameter",)),
            Term("ttft", msgid("Time to first token (TTFT)"), ("prefill",)),
            Term("throughput", msgid("Throughput"), ("continuous-batching",)),
        ),
    ),
    (
        msgid("What memory holds"),
        (
            Term("kv-cache", msgid("KV cache"), ("attention", "paged-attention", "context-window")),
            Term("paged-attention", msgid("PagedAttention"), ("vllm", "kv-cache")),
            Term("prefix-cache", msgid("Prefix cache (prompt caching)"), ("prefill", "token-pricing")),
            Term("context-window", msgid("Context window"), ("max-tokens", "kv-cache")),
            Term("max-tokens", msgid("Longest reply (max tokens)"), ("context-window",)),
        ),
    ),
    (
        msgid("Smaller numbers"),
        (
            Term("quantization", msgid("Quantization"), ("q4", "fp8", "bf16")),
            Term("bf16", msgid("BF16 and FP16"), ("quantization",)),
            Term("fp8", msgid("FP8"), ("bf16",)),
            Term("q4", msgid("Q4"), ("quantization", "gguf")),
            Term("gguf", msgid("GGUF"), ("llama-cpp", "q4")),
            Term("mlx", msgid("MLX"), ("on-device",)),
            Term("offloading", msgid("Offloading"), ("on-device",)),
        ),
    ),
    (
        msgid("Answering many"),
        (
            Term("serving", msgid("Serving"), ("throughput", "vllm")),
            Term("continuous-batching", msgid("Continuous batching"), ("throughput", "paged-attention")),
            Term("speculative-decoding", msgid("Speculative decoding"), ("decode",)),
            Term("flash-attention", msgid("FlashAttention"), ("attention",)),
            Term("on-device", msgid("On-device inference"), ("inference", "q4")),
            Term("token-pricing", msgid("Token pricing"), ("prefix-cache",)),
        ),
    ),
    (
        msgid("Names you will meet"),
        (
            Term("vllm", msgid("vLLM"), ("paged-attention", "continuous-batching")),
            Term("llama-cpp", msgid("llama.cpp"), ("gguf", "ollama")),
            Term("ollama", msgid("Ollama"), ("llama-cpp",)),
        ),
    ),
)

TERMS: Mapping[str, Term] = {term.slug: term for _, terms in GROUPS for term in terms}


@dataclass(frozen=True, slots=True)
class TermView:
    """A term on the page: its macro's name, and what this machine has to say, maybe nothing."""

    slug: str
    name: str
    macro: str
    here: str
    see: Sequence[Term]


@dataclass(frozen=True, slots=True)
class GroupView:
    """Terms under one heading, still to be translated."""

    label: str
    terms: Sequence[TermView]


def glossary(language: Language, facts: Mapping[str, str]) -> list[GroupView]:
    """The whole glossary; `facts` are sentences by the slug of the term that they belong to."""
    return [
        GroupView(label, [_view(language, term, facts.get(term.slug, "")) for term in terms])
        for label, terms in GROUPS
    ]


def _view(language: Language, term: Term, here: str) -> TermView:
    see = [TERMS[slug] for slug in term.see]
    return TermView(term.slug, language.t(term.name), term.slug.replace("-", "_"), here, see)
