"""A model whose files are on this disk and have been checked, ready for a backend to load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from inference.types import ModelStatus, SamplingParams

Progress: TypeAlias = Callable[[ModelStatus], None]
"""Called from the preparing thread whenever there is news worth showing, at most a few times a second."""


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """Files of one model, and what is known of it before its weights are loaded.

    folder: config.json (transformers' format) and tokenizer.json; for safetensors models the weights too.
    gguf: the GGUF file that holds the weights, for models that came as one; else None.
    name: as people know it. source: what `--model` said. context_window: tokens, from the model's config.
    chat_template: Jinja source. bos_token, eos_token: texts that templates may use ("" when there is none).
    eos_token_ids: any of these ends a reply. defaults: sampling defaults of the model or the catalogue.
    keep_full_precision: names of linear layers that are not quantized, since it would cost too much quality.
    work_folder: where derived files may be kept, for a folder that is not ours to write into or whose files
        may change; its name changes with them. It may not exist yet. None: inside `folder`.
    """

    folder: Path
    gguf: Path | None
    name: str
    source: str
    context_window: int
    chat_template: str
    bos_token: str
    eos_token: str
    eos_token_ids: tuple[int, ...]
    defaults: SamplingParams = field(default_factory=SamplingParams)
    keep_full_precision: tuple[str, ...] = ()
    work_folder: Path | None = None

    @property
    def tokenizer_file(self) -> Path:
        """The `tokenizers` library's JSON file."""
        return self.folder / "tokenizer.json"

    @property
    def converted_folder(self) -> Path:
        """Where a backend may keep its converted weights, so that the next start is quick."""
        return (self.work_folder or self.folder) / "converted"

    @property
    def identity(self) -> str:
        """Changes when the weights do: the name of the folder that is made for them alone."""
        return str(self.work_folder or self.folder)
