"""Sampling, against transformers' own processors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from inference.errors import InvalidParams
from inference.sampler import candidate_distribution, noise, sample
from inference.types import SamplingParams


def logits(seed: int, size: int = 200) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, size).astype(np.float32)


def test_temperature_zero_is_greedy() -> None:
    row = logits(1)
    assert sample(row, SamplingParams(temperature=0), 0) == int(row.argmax())


@given(
    seed=st.integers(0, 1_000),
    temperature=st.floats(0.1, 2.0),
    top_k=st.integers(0, 50),
    top_p=st.floats(0.1, 1.0),
)
@settings(max_examples=60, deadline=None)
def test_probabilities_equal_those_of_transformers(
    seed: int, temperature: float, top_k: int, top_p: float
) -> None:
    row = logits(seed)
    scores = torch.from_numpy(row.astype(np.float64))[None]
    ids = torch.zeros((1, 1), dtype=torch.long)
    scores = TemperatureLogitsWarper(temperature)(ids, scores)
    if top_k:
        scores = TopKLogitsWarper(top_k)(ids, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(ids, scores)
    expected = scores.softmax(-1)[0].numpy()
    tokens, probabilities = candidate_distribution(
        row, SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p)
    )
    ours = np.zeros_like(expected)
    ours[tokens] = probabilities
    np.testing.assert_allclose(ours, expected, atol=1e-9)


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    row = logits(3, 8)
    expected = np.exp(row) / np.exp(row).sum()
    drawn = [sample(row, SamplingParams(seed=7), index) for index in range(4_000)]
    counts = np.bincount(drawn, minlength=8) / 4_000
    np.testing.assert_allclose(counts, expected, atol=0.03)


def test_the_noise_of_a_token_depends_on_seed_and_index_alone() -> None:
    assert noise(5, 3) == noise(5, 3)
    assert noise(5, 3) != noise(5, 4)
    assert noise(5, 3) != noise(6, 3)
    row = logits(4)
    sample(row, SamplingParams(seed=1), 0)
    assert sample(row, SamplingParams(seed=1), 9) == sample(row, SamplingParams(seed=1), 9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1; it must be from 0 to 5"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0}, "top_p is 0; it must be above 0 and at most 1"),
        ({"top_k": -1}, "top_k is -1"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"stop": ("",)}, "1 to 200 characters"),
    ],
)
def test_values_out_of_range_are_refused_with_the_range(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidParams, match=words):
        SamplingParams(**changes)  # type: ignore[arg-type]
