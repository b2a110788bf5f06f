"""The general backend: any decoder that transformers knows, with bitsandbytes NF4 weights. Worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil
import torch
from transformers import PreTrainedModel

from inference.backends.base import BlockArrays, Logits
from inference.backends.kv_memory import SequenceKV, TorchKVBlock
from inference.backends.loading import LoadedModel, load_model
from inference.backends.out_of_memory import telling_out_of_memory
from inference.backends.ragged_decode import ATTENTION, batch_cache
from inference.config import EngineConfig
from inference.models.prepared import PreparedModel, Progress
from inference.types import ModelDescription

BATCHING_TOLERANCE = 0.05  # of the logits' spread; bfloat16 alone rounds by about 0.01


class TransformersBackend:
    """Prefill one sequence at a time; decode all of them in one step."""

    def __init__(self, loaded: LoadedModel, prepared: PreparedModel) -> None:
        self._model: PreTrainedModel = loaded.model
        self._layers = int(self._model.config.get_text_config().num_hidden_layers)
        self._device = loaded.device
        self.batches = _is_plain(self._model.config) and self._batching_agrees()
        self.description = self._describe(loaded, prepared)

    @classmethod
    def load(cls, prepared: PreparedModel, config: EngineConfig, progress: Progress) -> TransformersBackend:
        """Load (and the first time quantize) the model. Raises `ModelUnusable`."""
        return cls(load_model(prepared, config, progress), prepared)

    @telling_out_of_memory()
    def create_kv(self, tokens: int = 0) -> SequenceKV:
        """An empty KV cache."""
        return SequenceKV(self._layers, tokens)

    @telling_out_of_memory()
    @torch.inference_mode()
    def prefill(self, kv: SequenceKV, token_ids: Sequence[int], *, logits: bool) -> Logits | None:
        """Append one chunk; the last token's logits, shape [vocab], when asked for."""
        if logits:
            return self._forward(kv, token_ids)
        self._model.base_model(input_ids=self._tensor(token_ids), cache=kv.cache, use_cache=True)
        return None

    @telling_out_of_memory()
    @torch.inference_mode()
    def decode(self, kvs: Sequence[SequenceKV], runs: Sequence[Sequence[int]]) -> Logits:
        """A run of tokens for each sequence; logits of shape [tokens of all runs, vocab]."""
        if not self.batches:
            return np.concatenate([self._rows(kv, run, len(run)) for kv, run in zip(kvs, runs, strict=True)])
        return self._step(kvs, runs)

    def truncate(self, kv: SequenceKV, length: int) -> None:
        """Forget all but the first `length` tokens."""
        kv.truncate(length)

    @telling_out_of_memory()
    def copy_block(self, kv: SequenceKV, start: int, stop: int) -> TorchKVBlock:
        """A copy of tokens start..stop of `kv`."""
        return kv.copy(start, stop)

    def move_block(self, kv: SequenceKV, start: int, stop: int) -> TorchKVBlock:
        """A copy: a tensor's memory is given back as a whole."""
        return self.copy_block(kv, start, stop)

    @telling_out_of_memory()
    @torch.inference_mode()
    def append_blocks(self, kv: SequenceKV, parts: Sequence[tuple[TorchKVBlock, int]]) -> None:
        """Append the first tokens of some blocks."""
        if parts:
            kv.append(parts)

    def block_to_arrays(self, block: TorchKVBlock) -> BlockArrays:
        """The content of a block, to be kept in a file."""
        return block.to_arrays()

    def block_from_arrays(self, arrays: BlockArrays) -> TorchKVBlock:
        """The block with this content. Raises ValueError when it cannot be one of this model's."""
        return TorchKVBlock.from_arrays(arrays, self._layers, self._kv_dtype, self._device)

    def close(self) -> None:
        """Drop the model."""
        del self._model

    def _rows(self, kv: SequenceKV, token_ids: Sequence[int], last: int) -> Logits:
        """Append tokens to one sequence; logits after the last so many of them."""
        output = self._model(
            input_ids=self._tensor(token_ids), cache=kv.cache, use_cache=True, logits_to_keep=last
        )
        rows: Logits = output.logits[0, -last:].float().cpu().numpy()
        return rows

    def _forward(self, kv: SequenceKV, token_ids: Sequence[int]) -> Logits:
        row: Logits = self._rows(kv, token_ids, 1)[0]
        return row

    def _step(self, kvs: Sequence[SequenceKV], runs: Sequence[Sequence[int]]) -> Logits:
        """One forward pass for all sequences, whatever their lengths."""
        lengths = [len(run) for run in runs]
        positions = [kv.length + i for kv, length in zip(kvs, lengths, strict=True) for i in range(length)]
        output = self._model(
            input_ids=torch.tensor([token for run in runs for token in run], device=self._device)[:, None],
            position_ids=torch.tensor(positions, device=self._device)[:, None],
            cache=batch_cache(kvs, lengths),
            use_cache=True,
        )
        rows: Logits = output.logits[:, -1].float().cpu().numpy()
        return rows

    @torch.inference_mode()
    def _batching_agrees(self) -> bool:
        """Whether a step of two sequences, and one of two tokens, gives what single tokens give alone.

        Architectures differ in what their attention takes besides keys and values (soft caps, sinks);
        where one needs more than the step in `ragged_decode` knows, its sequences go one by one.
        """
        prompts, replies = ([1, 2, 3, 4, 5], [6, 7]), ([8], [9, 10, 11])
        together, alone = ([self.create_kv() for _ in prompts] for _ in range(2))
        for kvs in (together, alone):
            for kv, prompt in zip(kvs, prompts, strict=True):
                self._forward(kv, prompt)
        expected = np.stack(
            [self._forward(kv, [token]) for kv, reply in zip(alone, replies, strict=True) for token in reply]
        )
        try:
            side_by_side = self._step(together, [reply[:1] for reply in replies])
            found = np.concatenate([side_by_side, self._step(together[1:], [replies[1][1:]])])
        except (RuntimeError, TypeError, ValueError, AttributeError):
            return False
        error, spread = np.square(found - expected).mean(), expected.var()
        return bool(error <= BATCHING_TOLERANCE**2 * spread)

    def _tensor(self, token_ids: Sequence[int]) -> Any:
        return torch.tensor([list(token_ids)], device=self._device)

    def _describe(self, loaded: LoadedModel, prepared: PreparedModel) -> ModelDescription:
        probe = self.create_kv()
        vocab_size = len(self._probe(probe))
        block = probe.copy(0, 1)
        self._kv_dtype = block.layers[0][0].dtype
        return ModelDescription(
            name=prepared.name,
            source=prepared.source,
            backend="transformers + bitsandbytes",
            device=str(loaded.device),
            quantization=loaded.quantization,
            compute_dtype=str(loaded.compute_dtype).removeprefix("torch."),
            parameters=loaded.parameters,
            weight_bytes=loaded.weight_bytes,
            context_window=prepared.context_window,
            kv_bytes_per_token=block.nbytes,
            vocab_size=vocab_size,
            threads=torch.get_num_threads(),
            free_bytes=free_memory(loaded.device),
            eos_token_ids=prepared.eos_token_ids,
        )

    @torch.inference_mode()
    def _probe(self, kv: SequenceKV) -> Logits:
        """One token through the whole model: shows that it runs, and what a token of KV costs."""
        return self._forward(kv, [0])


def free_memory(device: torch.device) -> int:
    """Bytes of memory that nothing uses on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def _is_plain(config: Any) -> bool:
    """Whether attention runs on our function, and every layer attends to all tokens."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        kinds = ["sliding_attention" if getattr(text, "sliding_window", None) else "full_attention"]
    return config._attn_implementation == ATTENTION and set(kinds) == {"full_attention"}
