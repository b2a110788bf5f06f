"""Ranges of the sampling params."""

from __future__ import annotations

from typing import Any

import pytest

from inference.errors import InvalidParams
from inference.types import SamplingParams


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1; it must be from 0 to 5"),
        ({"temperature": 5.1}, "temperature is 5.1"),
        ({"top_p": 0}, "top_p is 0; it must be above 0 and at most 1"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"top_k": -1}, "top_k is -1; it must be a whole number from 0 to 1,000,000"),
        ({"top_k": 1.5}, "top_k is 1.5"),
        ({"min_p": -0.1}, "min_p is -0.1; it must be from 0 to 1"),
        ({"min_p": 1.1}, "min_p is 1.1"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0; it must be from 0.1 to 10"),
        ({"repetition_penalty": 11}, "repetition_penalty is 11"),
        ({"presence_penalty": 2.1}, "presence_penalty is 2.1; it must be from -2 to 2"),
        ({"frequency_penalty": -2.1}, "frequency_penalty is -2.1; it must be from -2 to 2"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**63}, "seed is 9223372036854775808; it must be a whole number from 0 to 9,223,372"),
        ({"max_tokens": 0}, "max_tokens is 0; it must be a whole number from 1 to 1,000,000"),
        ({"logprobs": 21}, "logprobs is 21; it must be a whole number from 0 to 20"),
        ({"logprobs": -1}, "logprobs is -1"),
        ({"stop": ("",)}, "1 to 200 characters"),
        ({"stop": ("x" * 201,)}, "1 to 200 characters"),
        ({"stop": ("x",) * 9}, "stop is 9; it must be at most 8 strings"),
    ],
)
def test_values_out_of_range_are_refused_with_the_range(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParams) as refusal:
        SamplingParams(**changes)
    assert words in str(refusal.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "name",
    [
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
    ],
)
def test_values_that_are_not_finite_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidParams, match=f"{name} is {value}"):
        SamplingParams(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 0.1, "logprobs": 0},
        {"temperature": 5, "top_p": 1e-9, "top_k": 1_000_000, "min_p": 1, "repetition_penalty": 10},
        {"presence_penalty": -2, "frequency_penalty": 2, "seed": 2**63 - 1, "logprobs": 20},
    ],
)
def test_the_ends_of_the_ranges_are_allowed(changes: dict[str, Any]) -> None:
    SamplingParams(**changes)
