"""Where each tensor of a decoder goes, and of what shape it has to be: the kernels trust both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inference.backends.native.decoder import Decoder, Unfit

TOP = -1
"""The layer of what belongs to none."""

ONCE = ("embedding", "head", "final_norm")
NEEDED_MATRICES = ("query", "key", "value", "output", "gate", "up", "down")
NEEDED_NORMS = ("attention_norm", "feed_forward_norm")
HEAD_NORMS = ("query_norm", "key_norm")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for one matrix or vector, by the names in `library.MATRICES` and `library.VECTORS`."""

    layer: int
    name: str


def check_slots(found: Mapping[Slot, tuple[int, ...]], decoder: Decoder) -> None:
    """Raise `Unfit` unless these are all tensors that the decoder computes with, each of the right shape."""
    shapes = _shapes(decoder)
    for slot, shape in found.items():
        where = slot.layer == TOP if slot.name in ONCE else 0 <= slot.layer < decoder.layers
        if not where or shape != shapes.get(slot.name):
            raise Unfit(f"A tensor of its layer {slot.layer} ({slot.name}) has the shape {shape}.")
    missing = next((slot for slot in _needed(decoder) if slot not in found), None)
    if missing is not None:
        raise Unfit(f"A tensor of its layer {missing.layer} ({missing.name}) is missing.")


def _shapes(decoder: Decoder) -> dict[str, tuple[int, ...]]:
    hidden, inner = decoder.hidden, decoder.inner
    queries, keys = decoder.heads * decoder.head_dim, decoder.kv_heads * decoder.head_dim
    matrices = {
        "embedding": (decoder.vocab, hidden),
        "head": (decoder.vocab, hidden),
        "query": (queries, hidden),
        "key": (keys, hidden),
        "value": (keys, hidden),
        "output": (hidden, queries),
        "gate": (inner, hidden),
        "up": (inner, hidden),
        "down": (hidden, inner),
    }
    biases = {f"{name}_bias": (matrices[name][0],) for name in NEEDED_MATRICES}
    norms = dict.fromkeys(("final_norm", *NEEDED_NORMS), (hidden,))
    head_norms = dict.fromkeys(HEAD_NORMS, (decoder.head_dim,)) if decoder.head_norms else {}
    return {**matrices, **biases, **norms, **head_norms}


def _needed(decoder: Decoder) -> list[Slot]:
    once = [name for name in ONCE if name != "head" or not decoder.tied]
    each = (*NEEDED_MATRICES, *NEEDED_NORMS, *(HEAD_NORMS if decoder.head_norms else ()))
    layers = range(decoder.layers)
    return [Slot(TOP, name) for name in once] + [Slot(layer, name) for layer in layers for name in each]
