"""A reply that was cut short and goes on: as if it had not been."""

from __future__ import annotations

import numpy as np
import pytest

from inference.context import fit
from inference.errors import PromptTooLong
from inference.reasoning import ReasoningFormat
from inference.sampler import Sampled
from inference.sequence import Sequence
from inference.types import ChatMessage, Delta, Event, FinishReason, GenerationRequest, SamplingParams
from tests.inference.doubles import END, TokenKV, chat_tokenizer

TOKENIZER = chat_tokenizer()
PROMPT = TOKENIZER.encode_text("Tell me. ")
PARAMS = SamplingParams(temperature=1.0, seed=7, presence_penalty=0.5, frequency_penalty=0.3, stop=("END",))
MARKS = ReasoningFormat("<think>", "</think>")
TEXT = "<think>On 가나다.\n\nSo it went. </think>\n\nYes, 라마 it went EN"
IDS = TOKENIZER.encode_text(TEXT)


class Written:
    """What was written of a reply, token by token: `new` ones after those that it had already."""

    def __init__(self, begun: tuple[int, ...], new: tuple[int, ...]) -> None:
        self._events: list[Event] = []
        request = GenerationRequest("r", PROMPT + begun, PARAMS, reasoning=MARKS, begun=len(begun))
        self.sequence = Sequence(request, self._events.append, TOKENIZER.decode)
        self.sequence.start(TokenKV(list(request.prompt_ids)))
        for token_id in new:
            assert self.sequence.accept(Sampled(token_id), (END,), 10_000) is None

    def finished(self) -> tuple[str, str]:
        """All of its reasoning and its answer."""
        self.sequence.finish(FinishReason.ABORT)
        deltas = [event for event in self._events if isinstance(event, Delta)]
        return "".join(d.reasoning for d in deltas), "".join(d.text for d in deltas)

    def next_draw(self) -> tuple[int, list[float]]:
        """The number of the next token, and what the penalties do to its logits."""
        draw, logits = self.sequence.draw, np.zeros(300)
        assert draw.counts is not None
        draw.counts.penalize(logits, PARAMS)
        return draw.index, logits.tolist()


def shows_half_a_mark(cut: int) -> bool:
    """Whether half a mark was shown as text when the reply was cut there: that stays."""
    before = TOKENIZER.decode(IDS[:cut])
    return "<think>".startswith(before) or before.endswith(tuple("</think>"[:n] for n in range(1, 8)))


@pytest.mark.parametrize("cut", range(len(IDS)))
def test_wherever_it_was_cut_the_next_token_is_drawn_in_the_same_way(cut: int) -> None:
    assert Written(IDS[:cut], IDS[cut:]).next_draw() == Written((), IDS).next_draw()


@pytest.mark.parametrize("cut", [cut for cut in range(len(IDS)) if not shows_half_a_mark(cut)])
def test_wherever_it_was_cut_its_text_is_whole(cut: int) -> None:
    first, rest, whole = Written((), IDS[:cut]), Written(IDS[:cut], IDS[cut:]), Written((), IDS)
    joined = tuple(a + b for a, b in zip(first.finished(), rest.finished(), strict=True))
    assert joined == whole.finished() == ("On 가나다.\n\nSo it went.", "Yes, 라마 it went EN")


def test_the_prompt_ends_with_what_the_answer_has() -> None:
    asked = fit(TOKENIZER, "S", [], "hello", window=512)
    begun = fit(TOKENIZER, "S", [], "hello", window=512, begun=(5, 6, 7))
    assert begun.prompt_ids == (*asked.prompt_ids, 5, 6, 7)
    assert begun.system + begun.history + begun.question + begun.begun == len(begun.prompt_ids)


def test_older_turns_make_room_for_an_answer_that_goes_on() -> None:
    turns = [ChatMessage("user" if n % 2 == 0 else "assistant", "x" * 20, key=f"m{n}") for n in range(10)]
    assert fit(TOKENIZER, "", turns, "hello", window=512, max_tokens=64).left_out == ()
    begun = fit(TOKENIZER, "", turns, "hello", window=512, max_tokens=64, begun=(1,) * 150)
    assert begun.left_out
    assert len(begun.prompt_ids) + begun.reserve <= 512


def test_an_answer_that_fills_the_window_cannot_go_on() -> None:
    with pytest.raises(PromptTooLong) as refused:
        fit(TOKENIZER, "", [], "hello", window=512, begun=(1,) * 400)
    assert (refused.value.limit, refused.value.needed > 512) == (512, True)
