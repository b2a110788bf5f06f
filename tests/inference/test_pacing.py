"""Chunks of a prompt: large when nobody is kept waiting, small enough when somebody is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.pacing import SMALLEST_CHUNK, Pace

SECONDS = st.floats(1e-5, 10)


def pace(*, token_s: float, step_s: float | None = None, largest: int = 512) -> Pace:
    pace = Pace(largest)
    pace.observe_prefill(100, 100 * token_s)
    if step_s is not None:
        pace.observe_step(step_s)
    return pace


def test_alone_a_chunk_takes_half_a_second() -> None:
    assert pace(token_s=0.002).chunk(beside_decoding=False) == 250


def test_beside_others_a_chunk_takes_less_than_two_of_their_steps() -> None:
    assert pace(token_s=0.002, step_s=0.1).chunk(beside_decoding=True) == 85
    assert pace(token_s=0.002, step_s=0.1).chunk(beside_decoding=False) == 250


def test_a_chunk_is_never_larger_than_allowed_nor_smaller_than_useful() -> None:
    assert pace(token_s=1e-6).chunk(beside_decoding=False) == 512
    assert pace(token_s=5.0).chunk(beside_decoding=False) == SMALLEST_CHUNK
    assert pace(token_s=5.0, largest=8).chunk(beside_decoding=True) == 8


def test_before_anything_is_measured_the_first_chunk_is_small() -> None:
    assert Pace(512).chunk(beside_decoding=False) == 64
    assert Pace(16).chunk(beside_decoding=True) == 16


@given(SECONDS, SECONDS)
def test_a_gap_is_at_most_three_usual_ones_unless_the_smallest_chunk_is_longer(
    token_s: float, step_s: float
) -> None:
    chunk = pace(token_s=token_s, step_s=step_s, largest=100_000).chunk(beside_decoding=True)
    gap = step_s + chunk * token_s
    assert gap <= 3 * step_s * 1.000001 or chunk == SMALLEST_CHUNK


def test_new_measurements_count_more_than_old_ones() -> None:
    changing = pace(token_s=0.001)
    for _ in range(20):
        changing.observe_prefill(10, 10 * 0.01)
    assert 45 <= changing.chunk(beside_decoding=False) <= 50
