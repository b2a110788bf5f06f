"""Which backend runs, and that nothing stale or heavy is ever loaded."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest

from inference.backends import load_backend
from inference.backends.native.library import NativeUnavailable, load_library
from inference.backends.native.sources import source_hash
from inference.config import EngineConfig
from inference.errors import ModelUnusable
from inference.models.catalogue import DEFAULT_MODEL
from tests.inference.backends.native.models import write_model
from tests.inference.backends.tiny import write_tiny_llama
from tests.inference.doubles import no_progress
from tests.inference.models.conftest import Preparing

ROOT = Path(__file__).parents[4]
MODELS_DIR = platformdirs.user_cache_path("ondol", appauthor=False) / "models"


def test_there_is_nothing_to_load_where_nothing_was_compiled(tmp_path: Path) -> None:
    with pytest.raises(NativeUnavailable, match="C compiler"):
        load_library(tmp_path)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
def test_a_library_from_other_sources_is_never_used(tmp_path: Path) -> None:
    source = tmp_path / "old.c"
    source.write_text('const char *ondol_source_hash(void) { return "of older sources"; }')
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", tmp_path / "_kernels.old.so"], check=True)
    with pytest.raises(NativeUnavailable, match="other sources"):
        load_library(tmp_path)


def test_a_file_that_is_no_library_is_told(tmp_path: Path) -> None:
    (tmp_path / "_kernels.so").write_bytes(b"not a library")
    with pytest.raises(NativeUnavailable, match="cannot be loaded"):
        load_library(tmp_path)


def test_the_hash_of_the_sources_is_in_the_library(library: ctypes.CDLL) -> None:
    assert library.ondol_source_hash().decode() == source_hash()


def test_auto_takes_the_native_backend_for_a_gguf_file_that_fits(
    library: ctypes.CDLL, preparing: Preparing, tmp_path: Path
) -> None:
    prepared = preparing(write_model(tmp_path / "m.gguf", "llama", intermediate_size=128))
    config = EngineConfig(model="m.gguf", models_dir=preparing.models_dir)
    backend = load_backend(prepared, config, no_progress)
    assert (backend.description.backend, backend.description.note) == ("native", "")
    assert backend.description.kernels == library.ondol_kernels_name(None).decode()
    assert backend.description.quantization == "Q4_1 in blocks of 32, as in the file: 0 million weights"
    backend.close()
    general = load_backend(prepared, replace(config, backend="transformers"), no_progress)
    assert general.description.backend == "transformers + bitsandbytes"
    general.close()


def test_a_model_that_it_cannot_run_goes_to_the_general_backend_unless_it_was_asked_for(
    preparing: Preparing, tmp_path: Path
) -> None:
    folder = write_tiny_llama(tmp_path / "tiny")
    own = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(own | {"hidden_act": "gelu"}))
    prepared = preparing(folder)
    config = EngineConfig(model="tiny", models_dir=preparing.models_dir)
    backend = load_backend(prepared, config, no_progress)
    assert backend.description.backend == "transformers + bitsandbytes"
    backend.close()
    with pytest.raises(ModelUnusable, match="activation is 'gelu'"):
        load_backend(prepared, replace(config, backend="native"), no_progress)


def test_a_reply_of_the_native_backend_needs_neither_torch_nor_transformers(library: ctypes.CDLL) -> None:
    script = """
import sys, threading
from pathlib import Path
from queue import Queue
from inference.backends import load_backend
from inference.config import EngineConfig
from inference.context import fit
from inference.engine import Engine
from inference.models.locate import prepare
from inference.types import Delta, Finished, GenerationRequest, ModelPhase, SamplingParams

def prepare_model(config, progress, cancelled):
    return prepare(config.model, models_dir=config.models_dir, progress=progress, cancelled=cancelled)

statuses, events = Queue(), Queue()
config = EngineConfig(sys.argv[1], Path(sys.argv[2]), backend="native")
engine = Engine(config, prepare_model, load_backend, statuses.put)
engine.start()
while (status := statuses.get(timeout=60)).phase is not ModelPhase.READY:
    assert status.phase is not ModelPhase.FAILED, status.message
tokenizer = engine.tokenizing.tokenizer
prompt = fit(tokenizer, config.system_prompt, [], "What is the capital of France?", window=4096).prompt_ids
params = SamplingParams(temperature=0.2, seed=1, max_tokens=12, logprobs=2)
engine.submit(GenerationRequest("r", prompt, params), events.put)
text = ""
while not isinstance(event := events.get(timeout=60), Finished):
    text += event.text if isinstance(event, Delta) else ""
engine.stop()
print(event.reason, text, [name for name in ("torch", "transformers", "bitsandbytes") if name in sys.modules])
"""
    command = [sys.executable, "-c", script, DEFAULT_MODEL, str(MODELS_DIR)]
    printed = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    assert "Paris" in printed
    assert printed.strip().endswith("[]")
