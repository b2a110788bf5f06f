"""A model that computes nothing and writes the same word again and again, each token at its time: what lies
between the worker and people can be measured with it. The process that measures shares its clock and beats.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from inference.backends.base import BlockArrays, Logits
from inference.config import EngineConfig
from inference.models.prepared import PreparedModel, Progress
from inference.tokenization import ChatTokenizer
from inference.types import ModelDescription

WORD = " stone"
"""None that the page itself says."""
MOST_TOKENS = 8_192
_EVERY, _LENGTH, _WORD_TOKENS, _FIRST = range(4)


class Beats:
    """How fast and how much is written, decided by one process and read by another, and when each token of
    the newest reply was made: seconds of the monotonic clock that all processes of a machine share.
    """

    def __init__(self, context: SpawnContext) -> None:
        self._shared: Any = context.Array("d", _FIRST + MOST_TOKENS, lock=False)

    def set(self, every_s: float, words: int) -> None:
        """From the next step on."""
        self._shared[_EVERY], self._shared[_LENGTH] = every_s, words

    @property
    def every_s(self) -> float:
        """From token to token, seconds."""
        return float(self._shared[_EVERY])

    @property
    def tokens(self) -> int:
        """Of a reply."""
        return int(self._shared[_LENGTH] * self._shared[_WORD_TOKENS])

    def note(self, token: int) -> None:
        """That token of a reply was made now."""
        self._shared[_FIRST + token] = time.monotonic()

    def note_word(self, tokens: int) -> None:
        """So many tokens are one word."""
        self._shared[_WORD_TOKENS] = tokens

    def word_times(self) -> list[float]:
        """When each word of the newest reply was whole."""
        step = int(self._shared[_WORD_TOKENS])
        return [float(at) for at in self._shared[_FIRST + step - 1 : _FIRST + self.tokens : step]]


@dataclass(slots=True)
class BeatsKV:
    """Instead of keys and values: how many there would be, and how much of the reply."""

    length: int = 0
    said: int = 0


@dataclass(frozen=True, slots=True)
class BeatsBlock:
    """As many, kept for reuse."""

    length: int
    nbytes: int = 1


class BeatsBackend:
    """Writes `WORD` at the pace of its beats: all running sequences together, a token each."""

    def __init__(self, beats: Beats, prepared: PreparedModel) -> None:
        self._beats = beats
        self._word = ChatTokenizer.load(prepared).encode_text(WORD)
        self._end = prepared.eos_token_ids[0]
        self._last_step = 0.0
        beats.note_word(len(self._word))
        self.description = ModelDescription(
            name="No model",
            source="none",
            backend="none",
            device="none",
            quantization="none",
            compute_dtype="none",
            parameters=0,
            weight_bytes=0,
            context_window=prepared.context_window,
            kv_bytes_per_token=1,
            vocab_size=Tokenizer.from_file(str(prepared.tokenizer_file)).get_vocab_size(),
            threads=1,
            free_bytes=2**30,
            eos_token_ids=prepared.eos_token_ids,
        )

    def create_kv(self, tokens: int = 0) -> BeatsKV:
        """An empty one."""
        return BeatsKV()

    def prefill(self, kv: BeatsKV, token_ids: Sequence[int], *, logits: bool) -> Logits | None:
        """At once."""
        kv.length += len(token_ids)
        return self._rows([kv])[0] if logits else None

    def decode(self, kvs: Sequence[BeatsKV], runs: Sequence[Sequence[int]]) -> Logits:
        """At the next beat."""
        time.sleep(max(0.0, self._last_step + self._beats.every_s - time.monotonic()))
        for kv, run in zip(kvs, runs, strict=True):
            kv.length += len(run)
        return self._rows(kvs)

    def _rows(self, kvs: Sequence[BeatsKV]) -> Logits:
        self._last_step = time.monotonic()
        rows = np.zeros((len(kvs), self.description.vocab_size), np.float32)
        for row, kv in zip(rows, kvs, strict=True):
            over = kv.said >= self._beats.tokens
            row[self._end if over else self._word[kv.said % len(self._word)]] = 100.0
            if not over:
                self._beats.note(kv.said)
            kv.said += 1
        return rows

    def truncate(self, kv: BeatsKV, length: int) -> None:
        """Nothing is drafted."""
        kv.length = length

    def copy_block(self, kv: BeatsKV, start: int, stop: int) -> BeatsBlock:
        """Of as many."""
        return BeatsBlock(stop - start)

    def move_block(self, kv: BeatsKV, start: int, stop: int) -> BeatsBlock:
        """Of as many."""
        return BeatsBlock(stop - start)

    def append_blocks(self, kv: BeatsKV, parts: Sequence[tuple[BeatsBlock, int]]) -> None:
        """So many more."""
        kv.length += sum(length for _, length in parts)

    def block_to_arrays(self, block: BeatsBlock) -> BlockArrays:
        """Its length."""
        return {"length": np.array([block.length], np.int32)}

    def block_from_arrays(self, arrays: BlockArrays) -> BeatsBlock:
        """Of that length."""
        return BeatsBlock(int(arrays["length"][0]))

    def close(self) -> None:
        """Nothing is held."""


def load_beats(
    beats: Beats, prepared: PreparedModel, config: EngineConfig, progress: Progress
) -> BeatsBackend:
    """A `LoadBackend`, with its first argument given."""
    return BeatsBackend(beats, prepared)
