"""The bench: what is measured, how it becomes a figure, and whose turn it is. No test looks at a clock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from inference.bench.ours import EngineUnderTest, in_fresh_process, loaded, peak_memory_mb
from inference.bench.rounds import measure, ratios, report
from inference.bench.work import (
    Figure,
    Outcome,
    Plan,
    Point,
    Prompts,
    Run,
    Work,
    decode_rate,
    gap_ratio,
    value,
)
from inference.errors import BenchFailed, ModelUnavailable
from inference.token_blocks import common_prefix
from tests.inference.bench_doubles import (
    SMALL,
    ObservedEngine,
    endless,
    fatal,
    work,
)

VOCAB = 49_152
DECODE = Figure("decode_tok_s", 8)


def nobody(*_: object) -> None:
    """Progress that nobody looks at."""


def run_at(first_s: float, step_s: float, tokens: int = 48, cached: int | None = 0) -> Run:
    """A reply whose first token comes at `first_s`."""
    points = tuple(Point(first_s + i * step_s, i + 1) for i in range(tokens))
    return Run(0.0, points, prefill_tok_s=100.0, cached_tokens=cached)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ObservedEngine]:
    with loaded(endless(tmp_path), nobody) as loaded_engine:
        assert isinstance(loaded_engine, ObservedEngine)
        yield loaded_engine


def test_no_two_prompts_begin_alike() -> None:
    prompts = Prompts(VOCAB)
    given = [prompts.fresh(5) for _ in range(3_000)]
    assert len({ids[0] for ids in given}) == len(given)
    assert all(100 <= token < VOCAB - 1000 for ids in given for token in ids)


def test_the_same_seed_gives_the_same_prompts() -> None:
    one, other = Prompts(VOCAB), Prompts(VOCAB)
    assert Plan().speed(one) == Plan().speed(other)
    assert one.fresh(9) != one.fresh(9)


def test_the_sizes_are_those_of_the_peers_script() -> None:
    prompts = Prompts(VOCAB)
    works = dict(Plan().speed(prompts))
    for n in (128, 512, 2048):
        assert [len(p) for p in works[Figure("decode_tok_s", n)].prompts] == [n]
        assert works[Figure("decode_tok_s", n)].new_tokens == 48
    for n in (512, 2048):
        assert [len(p) for p in works[Figure("prefill_tok_s", n)].prompts] == [n]
    assert [len(p) for p in works[Figure("batch4_tok_s")].prompts] == [128] * 4
    assert len(works) == 8


def test_the_cached_turn_shares_its_history_and_the_cold_one_nothing() -> None:
    prompts = Prompts(VOCAB)
    works = [*Plan().warm_up(prompts), *Plan().speed(prompts), *Plan().speed(prompts)]
    cached, cold = (dict(works)[Figure(key)] for key in ("cached_ttft_ms", "cold_ttft_ms"))
    assert common_prefix(cached.prompts[0], cached.history) == len(cached.history) == 1500
    assert len(cached.prompts[0]) == len(cold.prompts[0]) == 1520
    everything = [ids for _, w in works for ids in w.prompts]
    assert len({ids[0] for ids in everything}) == len(everything)


def test_memory_is_measured_with_full_windows() -> None:
    (_, one), (_, four) = Plan().memory(Prompts(VOCAB))
    assert [len(p) + one.new_tokens for p in one.prompts] == [4096]
    assert [len(p) + four.new_tokens for p in four.prompts] == [2048] * 4


def test_exactly_as_many_tokens_are_generated_as_planned(engine: ObservedEngine) -> None:
    under_test = EngineUnderTest(engine)
    for figure, item in SMALL.speed(Prompts(258)):
        outcome = under_test(item)
        assert [run.points[-1].tokens for run in outcome.runs] == [item.new_tokens] * len(item.prompts)
        assert value(item, outcome) > 0, figure
    assert {request.params.temperature for request in engine.requests} == {0}


def test_the_engine_computes_only_the_new_part_of_a_cached_turn(engine: ObservedEngine) -> None:
    under_test = EngineUnderTest(engine)
    works = dict(SMALL.speed(Prompts(258)))
    (cached,) = under_test(works[Figure("cached_ttft_ms")]).runs
    (cold,) = under_test(works[Figure("cold_ttft_ms")]).runs
    assert (cached.cached_tokens, cold.cached_tokens) == (48, 0)


def test_four_chats_decode_together(engine: ObservedEngine) -> None:
    item = dict(SMALL.speed(Prompts(258)))[Figure("batch4_tok_s")]
    runs = EngineUnderTest(engine)(item).runs
    assert max(r.points[0].at_s for r in runs) < min(r.points[-1].at_s for r in runs)


def test_a_model_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("in the way of its folder")
    with pytest.raises(ModelUnavailable, match="could not be loaded"), loaded(endless(tmp_path), nobody):
        pass


def test_the_speed_of_several_leaves_prefill_out() -> None:
    early, late = run_at(1.0, 0.5, tokens=20), run_at(6.0, 0.5, tokens=20)
    assert decode_rate([early]) == pytest.approx(2)
    assert decode_rate([early, late]) == pytest.approx(4)


def test_a_gap_is_compared_with_what_is_usual() -> None:
    def points(*times: float) -> tuple[Point, ...]:
        return tuple(Point(at, number) for number, at in enumerate(times, start=1))

    usual = [i / 10 for i in range(11)]  # until 1.0
    other = Run(0.0, points(*usual, *(1.0 + 0.25 * i for i in range(1, 9)), 3.1, 3.2))
    newcomer = Run(1.05, points(3.0))
    assert gap_ratio([other, newcomer]) == pytest.approx(2.5)
    with pytest.raises(BenchFailed, match="were not being written"):
        gap_ratio([Run(0.0, points(*usual)), newcomer])


def test_several_tokens_at_once_are_all_counted() -> None:
    run = Run(0.0, (Point(1.0, 1), Point(2.0, 4), Point(3.0, 5)))
    assert decode_rate([run]) == pytest.approx(2)


def test_replies_one_after_another_are_no_batch() -> None:
    runs = (run_at(1.0, 0.1), run_at(100.0, 0.1))
    with pytest.raises(BenchFailed, match="side by side"):
        decode_rate(runs)


@pytest.mark.parametrize(
    ("cached", "run", "words"),
    [
        (False, run_at(1, 1, tokens=1, cached=5), "5 tokens of a prompt that should be new"),
        (True, run_at(1, 1, tokens=1, cached=40), "Only 40 of 48 tokens"),
        (False, run_at(1, 1, tokens=0), "after 0 of 1 tokens"),
    ],
)
def test_something_else_than_was_planned_is_no_figure(cached: bool, run: Run, words: str) -> None:
    with pytest.raises(BenchFailed, match=words):
        value(work("ttft", cached=cached), Outcome((run,), 1))


def test_a_reply_that_ends_early_is_no_figure() -> None:
    with pytest.raises(BenchFailed, match="after 47 of 48 tokens"):
        value(work("decode"), Outcome((run_at(1, 1, tokens=47),), 1))


def test_each_kind_has_its_figure() -> None:
    one = run_at(0.25, 0.5, tokens=1)
    assert value(work("ttft"), Outcome((one,), 7)) == 250
    assert value(work("prefill"), Outcome((one,), 7)) == 100
    assert value(work("memory"), Outcome((run_at(1, 1),), 7)) == 7
    assert value(work("decode"), Outcome((run_at(1, 0.25),), 7)) == pytest.approx(4)


def test_a_figure_is_the_median_of_its_rounds() -> None:
    steps = iter((1.0, 0.1, 0.5))
    found = measure(
        lambda: [(DECODE, work("decode"))],
        {"ours": lambda _: Outcome((run_at(1.0, next(steps)),), 1)},
        rounds=3,
        on_step=nobody,
    )
    assert found == {"ours": {DECODE: 2.0}}


def test_engines_take_turns_with_the_same_prompts() -> None:
    turns: list[tuple[str, Work]] = []
    prompts = Prompts(VOCAB)

    def ours(item: Work) -> Outcome:
        turns.append(("ours", item))
        return Outcome((run_at(1.0, 0.1),), 1)

    def peers(item: Work) -> Outcome:
        turns.append(("peer", item))
        return Outcome((run_at(1.0, 0.1),), 1)

    measure(
        lambda: SMALL.speed(prompts)[:2],
        {"ours": ours, "peer": peers},
        rounds=2,
        on_step=nobody,
    )
    assert [name for name, _ in turns] == ["ours", "peer"] * 2 + ["peer", "ours"] * 2
    assert all(one[1] == other[1] for one, other in list(pairwise(turns))[::2])
    assert len({item.prompts for _, item in turns}) == 4


def test_ratios_are_ours_by_the_peers() -> None:
    figures, peers = {DECODE: 5.0, Figure("rss_mb"): 900.0}, {DECODE: 10.0, Figure("rss_mb"): 0.0}
    assert ratios(figures, peers) == {DECODE: 0.5}
    assert report({**figures, Figure("decode_tok_s", 16): 4.0}) == {
        "decode_tok_s": {8: 5.0, 16: 4.0},
        "rss_mb": 900.0,
    }


def test_memory_is_that_of_a_fresh_process(tmp_path: Path) -> None:
    code = "from inference.bench.ours import peak_memory_mb; print(peak_memory_mb())"
    held = bytearray(200 * 1024 * 1024)
    held[::4096] = b"x" * len(held[::4096])
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(child.stdout) < 200 < peak_memory_mb()
    item = Work("memory", (Prompts(258).fresh(20),), 4, 64)
    assert value(item, in_fresh_process(endless(tmp_path), item)) > 0


def test_a_process_that_is_killed_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match="too little memory"):
        in_fresh_process(fatal(tmp_path), work("memory"))
