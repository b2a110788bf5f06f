"""Drafts change the number of steps and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.speculation import DRAFT_TOKENS, NGRAM_TOKENS, RETRY_AFTER, Acceptance, Payoff, PromptLookup
from inference.types import Delta, Finished, FinishReason
from tests.inference.test_engine import Running, collect, last_of, text_of


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 12))
def test_a_draft_is_what_followed_the_last_time(tokens: list[int], longest: int) -> None:
    tail = tokens[-NGRAM_TOKENS:]
    expected: list[int] = []
    for start in range(len(tokens) - NGRAM_TOKENS):  # the last of the earlier places wins
        if len(tail) == NGRAM_TOKENS and tokens[start : start + NGRAM_TOKENS] == tail:
            stop = start + NGRAM_TOKENS
            expected = tokens[stop : stop + min(longest, DRAFT_TOKENS)]
    assert PromptLookup(tokens).draft(longest) == tuple(expected)


def test_drafts_are_used_where_they_measured_faster() -> None:
    payoff = Payoff("auto")
    payoff.observe(1, 0.05)
    payoff.observe(9, 0.10)
    assert payoff.is_worth_it(1, [(8, 1.5)])  # 2.5 tokens in 0.10 s beat one in 0.05 s
    assert not payoff.is_worth_it(1, [(8, 0.5)])
    assert Payoff("on").is_worth_it(1, [(8, 0.5)])
    assert not Payoff("off").drafts


def test_unused_drafts_are_tried_again_after_a_while() -> None:
    payoff = Payoff("auto")
    payoff.observe(1, 0.05)
    payoff.observe(9, 0.10)
    tried = [payoff.is_worth_it(1, [(8, 0.5)]) for _ in range(2 * RETRY_AFTER)]
    assert tried.count(True) == 2


def test_both_kinds_of_step_are_measured_before_anything_is_decided() -> None:
    payoff = Payoff("auto")
    assert not payoff.is_worth_it(1, [(8, 8.0)])
    payoff.observe(1, 0.05)
    assert payoff.is_worth_it(1, [(8, 0.1)])


def test_a_reply_that_accepts_nothing_is_expected_to_go_on_so() -> None:
    acceptance = Acceptance()
    for _ in range(20):
        acceptance.observe(8, 0)
    assert acceptance.expected < 0.1
    assert (acceptance.drafted, acceptance.accepted) == (160, 0)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def make(**changes: object) -> Running:
        started.append(Running(tmp_path / "model", **changes).start())
        return started[-1]

    yield make
    assert all(running.engine.stop() for running in started)


def test_a_reply_that_repeats_the_prompt_takes_few_steps(start: Callable[..., Running]) -> None:
    line = "the quick brown fox"
    replies, steps = [], []
    for mode in ("off", "on"):
        running = start(speculation=mode)
        replies.append(collect(running.submit("r", running.prompt(line), logprobs=1)))
        steps.append(len(running.backend.batches))
    assert text_of(replies[0]) == text_of(replies[1]) == line * 2
    plain, drafted = (last_of(events).timings for events in replies)
    assert (plain.drafted_tokens, plain.accepted_tokens) == (0, 0)
    assert drafted.accepted_tokens == steps[0] - steps[1]  # each spared a step
    assert drafted.drafted_tokens >= drafted.accepted_tokens > len(line)
    for events in replies:
        deltas = [event for event in events if isinstance(event, Delta) and event.token_ids]
        assert [d.logprobs[0].token_id for d in deltas] == [d.token_ids[0] for d in deltas]


@pytest.mark.parametrize("limit", range(4, 24, 3))
def test_a_draft_never_goes_beyond_the_limit(start: Callable[..., Running], limit: int) -> None:
    running = start(speculation="on")
    events = collect(running.submit("r", running.prompt("abcabcabcabc"), max_tokens=limit))
    assert text_of(events) == ("abcabcabcabc" * 2)[:limit]
    assert last_of(events).reason is FinishReason.LENGTH


def test_a_turn_after_rejected_drafts_reuses_only_what_is_right(start: Callable[..., Running]) -> None:
    # The double's next token depends on the tokens that its KV cache really holds.
    running = start(speculation="on")
    first = collect(running.submit("r", running.prompt("abcdX abcdY abcdZ")))
    assert text_of(first) == "abcdX abcdY abcdZ" * 2
    ids = tuple(i for event in first if isinstance(event, Delta) for i in event.token_ids)
    again = collect(running.submit("s", (*running.prompt("abcdX abcdY abcdZ"), *ids[:-2])))
    assert text_of(again) == "dZ"
    assert last_of(again).usage.cached_tokens == last_of(again).usage.prompt_tokens - 1


def test_a_stop_string_inside_a_draft_ends_the_reply(start: Callable[..., Running]) -> None:
    running = start(speculation="on")
    events = collect(running.submit("r", running.prompt("one two three four"), stop=("reeb", "ee f")))
    assert text_of(events) == "one two thr"
    assert isinstance(events[-1], Finished)
    assert last_of(events).reason is FinishReason.STOP
