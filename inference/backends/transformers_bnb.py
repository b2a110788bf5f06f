"""The general backend: any decoder that transformers knows, with bitsandbytes NF4 weights. Worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from inference.backends.base import BlockArrays, Logits
from inference.backends.kv_memory import SequenceKV, TorchKVBlock
from inference.backends.loading import LoadedModel, load_model
from inference.config import EngineConfig
from inference.models.prepared import PreparedModel, Progress
from inference.types import ModelDescription


class TransformersBackend:
    """Prefill and decode through a transformers model, one sequence at a time."""

    def __init__(self, loaded: LoadedModel, prepared: PreparedModel) -> None:
        self._model: PreTrainedModel = loaded.model
        self._layers = int(self._model.config.get_text_config().num_hidden_layers)
        self._device = loaded.device
        self.description = self._describe(loaded, prepared)

    @classmethod
    def load(cls, prepared: PreparedModel, config: EngineConfig, progress: Progress) -> TransformersBackend:
        """Load (and the first time quantize) the model. Raises `ModelUnusable`."""
        return cls(load_model(prepared, config, progress), prepared)

    def create_kv(self) -> SequenceKV:
        """An empty KV cache."""
        return SequenceKV(self._layers)

    @torch.inference_mode()
    def prefill(self, kv: SequenceKV, token_ids: Sequence[int], *, logits: bool) -> Logits | None:
        """Append one chunk; the last token's logits, shape [vocab], when asked for."""
        if logits:
            return self._forward(kv, token_ids)
        self._model.base_model(input_ids=self._tensor(token_ids), cache=kv.cache, use_cache=True)
        return None

    @torch.inference_mode()
    def decode(self, kvs: Sequence[SequenceKV], token_ids: Sequence[int]) -> Logits:
        """One token for each sequence; logits of shape [sequences, vocab]."""
        rows = [self._forward(kv, [token]) for kv, token in zip(kvs, token_ids, strict=True)]
        return np.stack(rows)

    def copy_block(self, kv: SequenceKV, start: int, stop: int) -> TorchKVBlock:
        """A copy of tokens start..stop of `kv`."""
        return kv.copy(start, stop)

    def append_block(self, kv: SequenceKV, block: TorchKVBlock, length: int) -> None:
        """Append the first `length` tokens of a block."""
        kv.append(block, length)

    def block_to_arrays(self, block: TorchKVBlock) -> BlockArrays:
        """The content of a block, to be kept in a file."""
        return block.to_arrays()

    def block_from_arrays(self, arrays: BlockArrays) -> TorchKVBlock:
        """The block with this content. Raises ValueError when it cannot be one of this model's."""
        return TorchKVBlock.from_arrays(arrays, self._layers, self._kv_dtype, self._device)

    def close(self) -> None:
        """Drop the model."""
        del self._model

    def _forward(self, kv: SequenceKV, token_ids: Sequence[int]) -> Logits:
        output = self._model(
            input_ids=self._tensor(token_ids), cache=kv.cache, use_cache=True, logits_to_keep=1
        )
        row: Logits = output.logits[0, -1].float().cpu().numpy()
        return row

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
            eos_token_ids=prepared.eos_token_ids,
        )

    @torch.inference_mode()
    def _probe(self, kv: SequenceKV) -> Logits:
        """One token through the whole model: shows that it runs, and what a token of KV costs."""
        return self._forward(kv, [0])
