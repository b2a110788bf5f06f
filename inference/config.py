"""What the owner may decide about the engine. Read once, frozen, passed on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from inference.speculation import Speculation

ComputeDtype: TypeAlias = Literal["auto", "float32", "bfloat16"]
BackendChoice: TypeAlias = Literal["auto", "native", "transformers"]

DEFAULT_SYSTEM_PROMPT = "You are a helpful AI assistant."
"""Short and usual on purpose: the smaller a model, the more an unusual text here costs its answers."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How the engine runs.

    model: a catalogue name, a Hugging Face repository, a folder or a `.gguf` file. models_dir: where files
    are kept. system_prompt: prefilled once when the model is ready. backend: `auto` takes the native one
    where it runs the model well, else the general one. compute_dtype: `auto` takes bfloat16 where the device
    has it, else float32; anything else is for the general backend, and `auto` leaves the model to it then.
    max_sequences: replies that run side by side. max_waiting: places in the queue. speculation: whether
    drafts of coming tokens are verified (`inference.speculation`). prefill_chunk: tokens of a prompt that are
    computed between two looks at the stop flags. prefix_cache_bytes: the bound of the prefix cache, in memory
    and on disk alike. prefix_cache_dir: a folder for it alone, where it survives a restart; None keeps
    nothing. step_limit_s: a step that takes longer hangs. thinking: whether models that can reason before
    they answer do so.
    """

    model: str
    models_dir: Path
    system_prompt: str = DEFAULT_SYSTEM_PROMPT
    backend: BackendChoice = "auto"
    compute_dtype: ComputeDtype = "auto"
    max_sequences: int = 8
    max_waiting: int = 32
    speculation: Speculation = "auto"
    prefill_chunk: int = 512
    prefix_cache_bytes: int = 512 * 1024 * 1024
    prefix_cache_dir: Path | None = None
    thinking: bool = True
    step_limit_s: float = 60.0
