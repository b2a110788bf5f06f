"""The measure of what quantization costs, and the default model by it."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import platformdirs
import pytest

from inference.backends.native.backend import NativeBackend
from inference.backends.quality import TEXT, full_precision_logits, mean_divergence
from inference.models.catalogue import DEFAULT_MODEL
from inference.models.locate import prepare
from inference.tokenization import ChatTokenizer
from tests.inference.doubles import no_progress

MODELS_DIR = platformdirs.user_cache_path("ondol", appauthor=False) / "models"


def random_logits(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((40, 300)).astype(np.float32) * 3


def test_logits_do_not_diverge_from_themselves() -> None:
    assert mean_divergence(random_logits(1), random_logits(1) + 5) == pytest.approx(0, abs=1e-12)


def test_the_divergence_is_the_mean_over_positions_in_nats() -> None:
    one, other = random_logits(1), random_logits(2)
    p, q = (np.exp(rows.astype(np.float64)) for rows in (one, other))
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    expected = np.mean(np.sum(p * (np.log(p) - np.log(q)), axis=-1))
    assert mean_divergence(one, other) == pytest.approx(expected, rel=1e-9)


def test_the_native_backend_predicts_what_the_default_models_file_says(library: ctypes.CDLL) -> None:
    prepared = prepare(
        DEFAULT_MODEL, models_dir=MODELS_DIR, progress=no_progress, cancelled=threading.Event()
    )
    token_ids = ChatTokenizer.load(prepared).encode_text(" ".join(TEXT.split()))
    assert len(token_ids) >= 500
    expected = full_precision_logits(prepared, MODELS_DIR, token_ids)
    for kernels in ("AVX2", None):
        if library.ondol_kernels_name(kernels and kernels.encode()) is None:
            continue
        backend = NativeBackend(prepared, kernels=kernels)
        logits = backend.decode([backend.create_kv()], [token_ids[:250]])
        kv = backend.create_kv()
        rows = [backend.decode([kv], [token_ids[at : at + 128]]) for at in range(0, len(token_ids), 128)]
        backend.close()
        np.testing.assert_array_equal(np.concatenate(rows)[:250], logits)
        assert mean_divergence(expected, np.concatenate(rows)) <= 0.005
