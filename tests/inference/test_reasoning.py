"""Reasoning told from answers while the text arrives, however it is cut into tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.reasoning import ReasoningFormat, ReasoningSplitter
from inference.reply_text import ReplyText
from tests.inference.doubles import chat_tokenizer

THINK = ReasoningFormat("<think>", "</think>")
OPENED = ReasoningFormat("<think>", "</think>", opened=True)
TOKENIZER = chat_tokenizer()

CASES = [
    (THINK, "<think>\nHm.\n\nSo.\n</think>\n\nHi.", "Hm.\n\nSo.", "Hi."),
    (THINK, "<think>\n\n</think>\n\nHi.", "", "Hi."),
    (THINK, "Use <think> and </think>.", "", "Use <think> and </think>."),
    (THINK, " <thing>", "", " <thing>"),
    (THINK, "<think>a</thi b </think>c</think>", "a</thi b", "c</think>"),
    (THINK, "<think>cut off", "cut off", ""),
    (THINK, "<think>cut off\n</thi", "cut off\n</thi", ""),
    (THINK, "<thi", "", "<thi"),
    (OPENED, "Hm.\n</think>\n\nHi.", "Hm.", "Hi."),
    (OPENED, "<think>\nHm.</think>Hi.", "Hm.", "Hi."),
    (OPENED, "Hm. <th", "Hm. <th", ""),
    (OPENED, "<th", "<th", ""),
    (None, "<think>\nHm.</think>Hi.", "", "<think>\nHm.</think>Hi."),
]


def split(marks: ReasoningFormat | None, pieces: list[str]) -> tuple[str, str]:
    splitter = ReasoningSplitter(marks)
    parts = [*(splitter.add(piece) for piece in pieces), splitter.flush()]
    return "".join(reasoning for reasoning, _ in parts), "".join(text for _, text in parts)


@pytest.mark.parametrize(("marks", "text", "reasoning", "answer"), CASES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_the_parts_are_the_same_wherever_the_text_is_cut(
    marks: ReasoningFormat | None, text: str, reasoning: str, answer: str, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split(marks, pieces) == (reasoning, answer)
    assert split(marks, list(text)) == (reasoning, answer)


def test_what_is_certain_is_given_at_once() -> None:
    splitter = ReasoningSplitter(THINK)
    assert splitter.add("<think>One two") == ("One two", "")
    assert splitter.add(" three <") == (" three", "")
    assert splitter.add("/think>\nHi") == ("", "Hi")
    assert splitter.add(" <think>") == ("", " <think>")


def written(text: str, stops: tuple[str, ...] = ()) -> tuple[str, str, ReplyText]:
    reply = ReplyText(TOKENIZER.decode, stops, THINK)
    parts = []
    for number, token_id in enumerate(TOKENIZER.encode_text(text)):
        parts.append(reply.add(token_id, float(number)))
        if reply.stopped:
            break
    parts.append(reply.flush())
    return "".join(r for r, _ in parts), "".join(t for _, t in parts), reply


def test_stop_strings_end_the_answer_and_not_the_reasoning() -> None:
    reasoning, text, reply = written("<think>a END b</think>c END d", ("END",))
    assert (reasoning, text) == ("a END b", "c ")
    assert reply.stopped


def test_tokens_and_time_of_the_reasoning_are_counted_with_its_marks() -> None:
    thought = "<think>\n생각\n</think>"
    _, text, reply = written(thought + "\n\n답")
    tokens = len(TOKENIZER.encode_text(thought))
    assert text == "답"
    assert reply.reasoning_tokens == tokens
    assert reply.reasoning_s == tokens - 1  # the first token came at 0, each one a second later


def test_a_reply_without_reasoning_has_no_tokens_or_time_of_it() -> None:
    _, text, reply = written("<thing> is a word")
    assert text == "<thing> is a word"
    assert (reply.reasoning_tokens, reply.reasoning_s) == (0, None)
