"""The measure of what quantization costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.backends.quality import mean_divergence
from tests.inference.backends.tiny import write_tiny_llama

IDS = tuple(range(40))


def test_a_model_does_not_diverge_from_itself(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(write_tiny_llama(tmp_path)).eval()
    assert mean_divergence(model, model, IDS) == 0


def test_the_divergence_is_the_mean_over_positions_in_nats(tmp_path: Path) -> None:
    one, other = (
        AutoModelForCausalLM.from_pretrained(write_tiny_llama(tmp_path / str(seed), seed=seed)).eval()
        for seed in (1, 2)
    )
    with torch.inference_mode():
        p, q = (m(torch.tensor([IDS])).logits[0].double().softmax(-1).numpy() for m in (one, other))
    expected = np.mean(np.sum(p * (np.log(p) - np.log(q)), axis=-1))
    assert mean_divergence(one, other, IDS) == pytest.approx(expected, rel=1e-4)
