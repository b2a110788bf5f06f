"""Getting a transformers model with NF4 weights into memory. Worker thread; imports torch."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bitsandbytes
import torch
import transformers
from bitsandbytes.functional import has_avx512bf16
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel

from inference.backends.cpu_kernels import choose_kernels
from inference.backends.ragged_decode import ATTENTION
from inference.config import EngineConfig
from inference.errors import ModelUnusable
from inference.models.folders import private_folder, publish
from inference.models.gguf_weights import read_state_dict
from inference.models.prepared import PreparedModel, Progress
from inference.types import ModelPhase, ModelStatus

ATTENTION_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
BLOCK_SIZE = 64


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run. `quantization` says in words what is 4-bit and what is not."""

    model: PreTrainedModel
    device: torch.device
    compute_dtype: torch.dtype
    quantization: str
    parameters: int
    weight_bytes: int


def load_model(prepared: PreparedModel, config: EngineConfig, progress: Progress) -> LoadedModel:
    """The model with its linear layers in NF4, the first time quantized here. Raises `ModelUnusable`."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = compute_dtype(config, device)
    with _quiet_transformers():
        _refuse_unsupported(prepared)
        model = _load(prepared, dtype, device, progress, config.models_dir)
    model.eval()
    if model.config._attn_implementation == "sdpa":  # else the architecture needs one of its own
        model.set_attn_implementation(ATTENTION)
    words, parameters = _quantization_in_words(model, prepared), _count_parameters(model)
    weight_bytes = choose_kernels(model, dtype, device) + int(model.get_memory_footprint())
    return LoadedModel(model, device, dtype, words, parameters, weight_bytes)


def compute_dtype(config: EngineConfig, device: torch.device) -> torch.dtype:
    """bfloat16 where the hardware computes it, else float32: emulated bfloat16 is slower and less exact."""
    if config.compute_dtype != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[config.compute_dtype]
    fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else bool(has_avx512bf16())
    return torch.bfloat16 if fast else torch.float32


def _load(
    prepared: PreparedModel, dtype: torch.dtype, device: torch.device, progress: Progress, models_dir: Path
) -> PreTrainedModel:
    if prepared.gguf is None:
        return _from_folder(prepared.folder, dtype, device, _nf4(prepared, dtype))
    variant = "-".join(["nf4", str(dtype).removeprefix("torch."), *prepared.keep_full_precision])
    converted = prepared.converted_folder / variant
    if not (converted / "config.json").exists():
        progress(ModelStatus(ModelPhase.CONVERTING, f"Quantizing {prepared.name} to 4 bits, once"))
        _convert(prepared, prepared.gguf, converted, dtype, models_dir)
        progress(ModelStatus(ModelPhase.LOADING, f"Loading {prepared.name}"))
    return _from_folder(converted, dtype, device, None)


def _from_folder(
    folder: Path, dtype: torch.dtype, device: torch.device, quantization: BitsAndBytesConfig | None
) -> PreTrainedModel:
    # An explicit None would make transformers ignore the quantization that a converted folder declares.
    options = {} if quantization is None else {"quantization_config": quantization}
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            device_map={"": device},
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            **options,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelUnusable(f"The model in {folder} cannot be loaded: {error}") from error
    return model


def _convert(
    prepared: PreparedModel, gguf: Path, converted: Path, dtype: torch.dtype, models_dir: Path
) -> None:
    """Dequantize the GGUF file's blocks, quantize them to NF4, and keep the result; whole or not at all."""
    with private_folder(models_dir) as private:
        full, quantized = private / "full", private / "nf4"
        save_full_precision(prepared, gguf, full, dtype)
        _from_folder(full, dtype, torch.device("cpu"), _nf4(prepared, dtype)).save_pretrained(quantized)
        converted.parent.mkdir(parents=True, exist_ok=True)
        publish(quantized, converted)


def save_full_precision(prepared: PreparedModel, gguf: Path, folder: Path, dtype: torch.dtype) -> None:
    from safetensors.torch import save_file

    folder.mkdir()
    shutil.copy(prepared.folder / "config.json", folder)
    weights = {name: torch.from_numpy(array).to(dtype).contiguous() for name, array in read_state_dict(gguf)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _nf4(prepared: PreparedModel, dtype: torch.dtype) -> BitsAndBytesConfig:
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=["lm_head", *prepared.keep_full_precision],
    )


def _refuse_unsupported(prepared: PreparedModel) -> None:
    config = AutoConfig.from_pretrained(prepared.folder, local_files_only=True, trust_remote_code=False)
    kinds = set(getattr(config.get_text_config(), "layer_types", None) or ["full_attention"])
    if not kinds <= ATTENTION_LAYERS:
        raise ModelUnusable(
            f"{prepared.name} has {', '.join(sorted(kinds - ATTENTION_LAYERS))} layers; "
            "Ondol runs models whose layers are all attention."
        )


def _linear4bit(model: PreTrainedModel) -> Iterator[bitsandbytes.nn.Linear4bit]:
    return (module for module in model.modules() if isinstance(module, bitsandbytes.nn.Linear4bit))


def _count_parameters(model: PreTrainedModel) -> int:
    """Weights of the model; a packed byte of NF4 holds two."""
    return sum(
        parameter.numel() * (2 if isinstance(parameter, bitsandbytes.nn.Params4bit) else 1)
        for parameter in model.parameters()
    )


def _quantization_in_words(model: PreTrainedModel, prepared: PreparedModel) -> str:
    quantized = 2 * sum(module.weight.numel() for module in _linear4bit(model))
    if not quantized:
        raise ModelUnusable(f"{prepared.name} has no linear layer that can be quantized to 4 bits.")
    total = _count_parameters(model)
    others = ", ".join(prepared.keep_full_precision)
    kept = f"embeddings and head, {others}" if others else "embeddings and head"
    share = f"{quantized / 1e6:,.0f} of {total / 1e6:,.0f} million weights"
    return f"NF4 in blocks of {BLOCK_SIZE}: {share}; not {kept}"


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Progress and errors are told by us; transformers' own bars and reports would garble the terminal."""
    logging = transformers.utils.logging
    verbosity = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.enable_progress_bar()
        logging.set_verbosity(verbosity)
