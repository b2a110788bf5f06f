"""Sampling, against transformers' own processors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from inference.penalties import TokenCounts
from inference.sampler import Draw, kept_tokens, noise, sample, token_logprob, token_weights
from inference.types import SamplingParams

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

VOCAB = 200
token_ids = st.integers(0, VOCAB - 1)
params_of_all_kinds = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 1e-320, 0.3, 1.0, 2.5]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 1e-6]),
    top_k=st.sampled_from([0, 1, 5, 50, 1_000]),
    min_p=st.sampled_from([0.0, 0.1, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
    presence_penalty=st.sampled_from([0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, -0.5]),
    seed=st.integers(0, 50),
    logprobs=st.sampled_from([0, 3]),
)


def logits(seed: int, size: int = VOCAB) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, size).astype(np.float32)


def one(row: np.ndarray, params: SamplingParams, index: int = 0) -> int:
    (sampled,) = sample(row[None], [Draw(params, index)])
    assert sampled is not None
    return sampled.token_id


def probabilities(row: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Of every token, after the cuts; penalties apart."""
    weights = token_weights(row[None], np.array([params.temperature]))[0]
    kept = kept_tokens(weights, params)
    result = np.zeros(len(row))
    result[kept] = weights[kept] / weights[kept].sum()
    return result


def as_transformers_has_it(row: np.ndarray, ids: list[int], *processors: Processor) -> np.ndarray:
    """Scores after the processors, in float64."""
    scores = torch.from_numpy(row.astype(np.float64))[None]
    for processor in processors:
        scores = processor(torch.tensor([ids], dtype=torch.long), scores)
    return scores[0].numpy()


def softmax(scores: np.ndarray) -> np.ndarray:
    return torch.from_numpy(scores).softmax(-1).numpy()


def counted(prompt: list[int], completion: list[int]) -> TokenCounts:
    counts = TokenCounts(prompt)
    for token in completion:
        counts.add(token)
    return counts


def test_temperature_zero_is_greedy() -> None:
    row = logits(1)
    assert one(row, SamplingParams(temperature=0, top_k=5)) == int(row.argmax())


@given(seed=st.integers(0, 1_000), temperature=st.floats(0.1, 2.0))
@settings(max_examples=30, deadline=None)
def test_temperature_equals_transformers(seed: int, temperature: float) -> None:
    row = logits(seed)
    expected = softmax(as_transformers_has_it(row, [0], TemperatureLogitsWarper(temperature)))
    np.testing.assert_allclose(
        probabilities(row, SamplingParams(temperature=temperature)), expected, atol=1e-12
    )


@pytest.mark.parametrize(
    ("params", "processor"),
    [
        (SamplingParams(top_k=1), TopKLogitsWarper(1)),
        (SamplingParams(top_k=40), TopKLogitsWarper(40)),
        (SamplingParams(top_k=10_000), TopKLogitsWarper(10_000)),
        (SamplingParams(top_p=0.1), TopPLogitsWarper(0.1)),
        (SamplingParams(top_p=0.9), TopPLogitsWarper(0.9)),
        (SamplingParams(top_p=0.999), TopPLogitsWarper(0.999)),
        (SamplingParams(min_p=0.02), MinPLogitsWarper(0.02)),
        (SamplingParams(min_p=1.0), MinPLogitsWarper(1.0)),
    ],
)
@given(seed=st.integers(0, 1_000))
@settings(max_examples=20, deadline=None)
def test_each_cut_keeps_the_tokens_that_transformers_keeps(
    params: SamplingParams, processor: Processor, seed: int
) -> None:
    row = logits(seed)
    expected = as_transformers_has_it(row, [0], processor)
    assert (
        np.flatnonzero(probabilities(row, params)).tolist() == np.flatnonzero(np.isfinite(expected)).tolist()
    )


def test_top_k_keeps_ties_as_transformers_does() -> None:
    row = np.array([2, 1, 2, 0, 2, -1], dtype=np.float32)
    expected = softmax(as_transformers_has_it(row, [0], TopKLogitsWarper(2)))
    np.testing.assert_allclose(probabilities(row, SamplingParams(top_k=2)), expected)


def test_top_p_takes_the_lowest_ids_of_equally_likely_tokens() -> None:
    row = np.zeros(10, dtype=np.float32)
    assert np.flatnonzero(probabilities(row, SamplingParams(top_p=0.25))).tolist() == [0, 1, 2]


@given(
    seed=st.integers(0, 1_000),
    temperature=st.floats(0.1, 2.0),
    top_k=st.integers(1, 50),
    top_p=st.floats(0.1, 0.99),
    min_p=st.floats(0.0, 0.3),
)
@settings(max_examples=60, deadline=None)
def test_all_together_equal_transformers_in_its_order(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    row = logits(seed)
    expected = as_transformers_has_it(
        row,
        [0],
        TemperatureLogitsWarper(temperature),
        TopKLogitsWarper(top_k),
        TopPLogitsWarper(top_p),
        MinPLogitsWarper(min_p),
    )
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    np.testing.assert_allclose(probabilities(row, params), softmax(expected), atol=1e-9)


@given(
    seed=st.integers(0, 1_000),
    penalty=st.floats(0.1, 10),
    prompt=st.lists(token_ids, min_size=1),
    completion=st.lists(token_ids),
)
@settings(max_examples=60, deadline=None)
def test_repetition_penalty_equals_transformers(
    seed: int, penalty: float, prompt: list[int], completion: list[int]
) -> None:
    row = logits(seed)
    expected = as_transformers_has_it(row, prompt + completion, RepetitionPenaltyLogitsProcessor(penalty))
    ours = row.astype(np.float64)
    counted(prompt, completion).penalize(ours, SamplingParams(repetition_penalty=penalty))
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


@given(
    prompt=st.lists(token_ids),
    completion=st.lists(token_ids, max_size=300),
    presence=st.floats(-2, 2),
    frequency=st.floats(-2, 2),
)
@settings(max_examples=60, deadline=None)
def test_presence_and_frequency_penalties_count_the_completion(
    prompt: list[int], completion: list[int], presence: float, frequency: float
) -> None:
    row = logits(2)
    expected = row.astype(np.float64)
    for token in set(completion):
        expected[token] -= presence
    for token in completion:
        expected[token] -= frequency
    ours = row.astype(np.float64)
    params = SamplingParams(presence_penalty=presence, frequency_penalty=frequency)
    counted(prompt, completion).penalize(ours, params)
    np.testing.assert_allclose(ours, expected, atol=1e-9)


def test_repetition_penalty_comes_before_presence_and_frequency() -> None:
    row = np.array([4.0, 1.0, -2.0])
    params = SamplingParams(repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25)
    counted([2], [0, 0, 2]).penalize(row, params)
    assert row.tolist() == [4 / 2 - 0.5 - 0.5, 1.0, -2 * 2 - 0.5 - 0.25]


@pytest.mark.parametrize("name", ["repetition_penalty", "presence_penalty", "frequency_penalty"])
def test_a_penalty_changes_what_is_greedy_and_leaves_the_logits_alone(name: str) -> None:
    rows = np.array([[1.0, 0.9, 0.0]], dtype=np.float32)
    params = SamplingParams(temperature=0, **{name: 2.0})  # type: ignore[arg-type]
    assert sample(rows, [Draw(params, 1, counted([], [0]))])[0].token_id == 1
    assert rows.tolist() == np.array([[1.0, 0.9, 0.0]], dtype=np.float32).tolist()


@pytest.mark.parametrize(
    "params",
    [SamplingParams(seed=7), SamplingParams(seed=7, temperature=1.5, top_p=0.9, top_k=6, min_p=0.02)],
)
def test_tokens_are_drawn_as_often_as_they_are_likely(params: SamplingParams) -> None:
    row, many = logits(3, 8), 4_000
    rows = np.tile(row, (many, 1))
    drawn = [sampled.token_id for sampled in sample(rows, [Draw(params, index) for index in range(many)])]
    counts = np.bincount(drawn, minlength=8)
    expected = probabilities(row, params)
    np.testing.assert_allclose(counts / many, expected, atol=0.03)
    assert not counts[expected == 0].any()


def test_the_noise_of_a_token_depends_on_seed_and_index_alone() -> None:
    assert noise(5, 3) == noise(5, 3)
    assert noise(5, 3) != noise(5, 4)
    assert noise(5, 3) != noise(6, 3)
    row = logits(4)
    one(row, SamplingParams(seed=1))
    assert one(row, SamplingParams(seed=1), 9) == one(row, SamplingParams(seed=1), 9)


def test_a_seed_means_the_same_in_every_version() -> None:
    assert [noise(0, 0), noise(5, 3)] == [0.011546754286331562, 0.7515727286058772]


@given(
    seed=st.integers(0, 1_000),
    vocab=st.sampled_from([VOCAB, VOCAB + 1, VOCAB + 13]),
    batch=st.lists(
        st.tuples(params_of_all_kinds, st.lists(token_ids, max_size=8), st.integers(0, 9)),
        min_size=2,
        max_size=6,
    ),
)
@settings(max_examples=150, deadline=None)
def test_a_row_gives_the_same_alone_and_beside_others(
    seed: int, vocab: int, batch: list[tuple[SamplingParams, list[int], int]]
) -> None:
    rows = np.random.default_rng(seed).normal(0, 3, (len(batch), vocab)).astype(np.float32)
    draws = [Draw(params, index, counted(ids, ids[::2])) for params, ids, index in batch]
    together = sample(rows, draws)
    assert together == [sample(row[None].copy(), [draw])[0] for row, draw in zip(rows, draws, strict=True)]
    assert together[::-1] == sample(rows[::-1], draws[::-1])


@given(seed=st.integers(0, 1_000), count=st.integers(2, 5))
@settings(max_examples=30, deadline=None)
def test_weights_are_equal_to_the_bit_alone_and_beside_others(seed: int, count: int) -> None:
    rows = np.random.default_rng(seed).normal(0, 5, (count, 1_003)).astype(np.float32)
    temperatures = np.linspace(0.3, 2, count)
    together = token_weights(rows, temperatures)
    for place, row in enumerate(rows):
        alone = token_weights(row[None], temperatures[place : place + 1])[0]
        assert alone.tobytes() == together[place].tobytes()


@given(seed=st.integers(0, 1_000), alternatives=st.integers(1, 20), token=token_ids)
@settings(max_examples=60, deadline=None)
def test_logprobs_are_the_log_softmax_of_the_raw_logits(seed: int, alternatives: int, token: int) -> None:
    row = logits(seed)
    expected = torch.from_numpy(row.astype(np.float64)).log_softmax(-1)
    ours = token_logprob(row, token, alternatives)
    assert ours.logprob == pytest.approx(expected[token].item(), abs=1e-12)
    values, ids = expected.topk(alternatives)
    assert [token_id for token_id, _ in ours.top] == ids.tolist()
    np.testing.assert_allclose([logprob for _, logprob in ours.top], values.numpy(), atol=1e-12)


def test_logprobs_come_before_penalties_and_cuts() -> None:
    rows = logits(5)[None]
    plain = SamplingParams(temperature=0, logprobs=4)
    changed = replace(plain, temperature=0.2, top_k=1, repetition_penalty=3.0, presence_penalty=2.0)
    best = int(rows[0].argmax())
    (greedy,) = sample(rows, [Draw(plain, 0)])
    (penalized,) = sample(rows, [Draw(changed, 0, counted([best], [best]))])
    assert greedy.logprob is not None
    assert penalized.logprob is not None
    assert penalized.logprob.top == greedy.logprob.top
    assert sample(rows, [Draw(replace(plain, logprobs=0), 0)])[0].logprob is None


def test_more_alternatives_than_tokens_are_all_of_them() -> None:
    assert len(token_logprob(logits(1, 3), 0, 20).top) == 3


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_not_finite_gives_no_token_and_harms_no_other(value: float, temperature: float) -> None:
    rows = np.stack([logits(1), logits(2)])
    rows[0, 7] = value
    params = SamplingParams(temperature=temperature, top_p=0.9, top_k=5, seed=1)
    broken, whole = sample(rows, [Draw(params, 0), Draw(params, 0)])
    assert broken is None
    assert whole is not None
    assert whole.token_id == one(rows[1], params)


def test_tokens_that_are_ruled_out_are_not_a_fault() -> None:
    row = np.full(5, -np.inf, dtype=np.float32)
    row[3] = 1.0
    assert one(row, SamplingParams(temperature=1.0, seed=1)) == 3
    assert sample(np.full((1, 5), -np.inf, dtype=np.float32), [Draw(SamplingParams(), 0)]) == [None]
