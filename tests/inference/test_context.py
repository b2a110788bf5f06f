"""What the model reads: exact, whole turns, never silent."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.context import QUESTION_KEY, fit, measure, reserve_for
from inference.errors import PromptTooLong
from inference.types import ChatMessage
from tests.inference.doubles import CHATML_WITH_OWN_SYSTEM, chat_tokenizer

TOKENIZER = chat_tokenizer()
SYSTEM = "Be brief."


def turn(number: int, length: int = 20, *, pinned: bool = False) -> list[ChatMessage]:
    return [
        ChatMessage("user", f"q{number}".ljust(length, "x"), pinned=pinned, key=f"u{number}"),
        ChatMessage("assistant", f"a{number}".ljust(length, "y"), key=f"r{number}"),
    ]


def history(turns: int, length: int = 20) -> list[ChatMessage]:
    return [message for number in range(turns) for message in turn(number, length)]


def test_the_parts_add_up_to_the_prompt() -> None:
    result = fit(TOKENIZER, SYSTEM, history(2), "hello", window=512)
    assert result.system + result.pinned + result.history + result.question == len(result.prompt_ids)
    assert result.cut_key is None
    assert result.left_out == ()


def test_the_prompt_is_what_the_template_renders() -> None:
    result = fit(TOKENIZER, "S", [ChatMessage("user", "a"), ChatMessage("assistant", "b")], "c", window=512)
    text = (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
        "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
    )
    rendered = TOKENIZER.decode(result.prompt_ids)
    assert rendered == text.replace("<|im_start|>", "").replace("<|im_end|>", "")


def test_a_system_text_of_the_template_is_counted() -> None:
    tokenizer = chat_tokenizer(CHATML_WITH_OWN_SYSTEM)
    assert tokenizer.template.default_system() == "Be kind."
    # One token a byte: <|im_start|> s y s t e m \n B e   k i n d . <|im_end|> \n
    assert fit(tokenizer, "", [], "hello", window=512).system == 1 + 7 + 8 + 1 + 1


def test_the_oldest_whole_turns_leave_and_free_a_quarter_of_the_window() -> None:
    window = 512
    result = fit(TOKENIZER, SYSTEM, history(8), "hello", window=window, max_tokens=64)
    kept = 16 - len(result.left_out)
    assert result.left_out == tuple(m.key for m in history(8))[: len(result.left_out)]
    assert len(result.left_out) % 2 == 0
    assert kept > 0
    assert len(result.prompt_ids) + result.reserve <= window - window // 4
    assert result.cut_key == history(8)[len(result.left_out)].key


def test_the_cut_stays_until_the_next_turn_no_longer_fits() -> None:
    first = fit(TOKENIZER, SYSTEM, history(8), "hello", window=512, max_tokens=64)
    longer = [*history(8), *turn(8)]
    second = fit(TOKENIZER, SYSTEM, longer, "hello", window=512, max_tokens=64, cut_key=first.cut_key)
    assert second.cut_key == first.cut_key
    assert second.left_out == first.left_out


def test_a_pinned_turn_stays_when_older_and_newer_ones_leave() -> None:
    messages = [*turn(0), *turn(1, pinned=True), *(m for n in range(2, 9) for m in turn(n))]
    result = fit(TOKENIZER, SYSTEM, messages, "hello", window=512, max_tokens=64)
    assert "u0" in result.left_out
    assert "u1" not in result.left_out
    assert result.pinned > 0


def test_all_history_may_leave_but_never_part_of_the_question() -> None:
    result = fit(TOKENIZER, SYSTEM, history(2, 100), "q" * 300, window=512, max_tokens=64)
    assert len(result.left_out) == 4
    assert result.cut_key == QUESTION_KEY
    assert (
        TOKENIZER.encode_text("q" * 300)
        == tuple(i for i in result.prompt_ids if i == TOKENIZER.encode_text("q")[0])[-300:]
    )


def test_a_question_that_cannot_fit_is_refused_with_both_numbers() -> None:
    with pytest.raises(PromptTooLong) as refusal:
        fit(TOKENIZER, SYSTEM, [], "q" * 600, window=512, max_tokens=64)
    alone = measure(TOKENIZER, SYSTEM, [], "q" * 600, window=512, max_tokens=64)
    assert refusal.value.limit == 512
    assert refusal.value.needed == len(alone.prompt_ids) + 64
    assert alone.excess == refusal.value.needed - 512
    assert f"{refusal.value.needed:,}" in str(refusal.value)


def test_shortening_by_the_excess_makes_it_fit() -> None:
    excess = measure(TOKENIZER, SYSTEM, [], "q" * 600, window=512).excess
    assert fit(TOKENIZER, SYSTEM, [], "q" * (600 - excess), window=512).excess == 0


def test_the_reserve_is_at_most_a_quarter_of_the_window() -> None:
    assert reserve_for(8_192, None) == 1_024
    assert reserve_for(8_192, 100) == 100
    assert reserve_for(2_048, 5_000) == 512


@given(st.lists(st.text(max_size=40), max_size=12), st.text(max_size=40), st.integers(200, 700))
@settings(max_examples=60, deadline=None)
def test_whatever_was_said_the_prompt_fits_or_is_refused(
    texts: list[str], question: str, window: int
) -> None:
    messages = [
        ChatMessage("user" if i % 2 == 0 else "assistant", text, key=str(i)) for i, text in enumerate(texts)
    ]
    result = measure(TOKENIZER, SYSTEM, messages, question, window=window)
    kept = [m for m in messages if m.key not in result.left_out]
    assert kept == messages[len(result.left_out) :]
    assert result.excess == max(0, len(result.prompt_ids) + result.reserve - window)
    assert result.excess == 0 or not kept


def test_a_refusal_names_the_pinned_tokens_when_they_leave_no_room() -> None:
    pins = turn(0, 120, pinned=True)
    with pytest.raises(PromptTooLong) as refusal:
        fit(TOKENIZER, SYSTEM, pins, "q" * 150, window=512, max_tokens=64)
    measured = measure(TOKENIZER, SYSTEM, pins, "q" * 150, window=512, max_tokens=64)
    assert refusal.value.pinned == measured.pinned > 240
    assert f"{measured.pinned:,} tokens of pinned messages" in str(refusal.value)
    assert str(refusal.value).endswith(f"Shorten it by {measured.excess:,} tokens, or unpin messages.")
