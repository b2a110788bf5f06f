"""Templates in the style of real families: what is found out about each, and tokens as by transformers."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from inference.chat_template import ChatTemplate
from inference.tokenization import ChatTokenizer
from inference.types import ChatMessage
from tests.inference.doubles import byte_tokenizer
from tests.inference.families import FAMILIES, KEEPS_REASONING, QWEN3, SPECIALS, Family

SYSTEM = ChatMessage("system", "Be brief. ")
TALK = [ChatMessage("user", "hello\n"), ChatMessage("assistant", " Hi."), ChatMessage("user", "안녕?")]
BOS = "<s>"


@cache
def tokenizer_file() -> str:
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIALS])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<think>", "</think>")])
    return tokenizer.to_str()


def tokenizer_of(template: str) -> ChatTokenizer:
    plain, literal = Tokenizer.from_str(tokenizer_file()), Tokenizer.from_str(tokenizer_file())
    literal.encode_special_tokens = True
    return ChatTokenizer(plain, literal, ChatTemplate(template, bos_token=BOS, eos_token="</s>"))


def transformers_ids(template: str, messages: list[ChatMessage], **options: Any) -> list[int]:
    """The independent source: the same template by transformers."""
    reference = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer_file()),
        chat_template=template,
        bos_token=BOS,
        eos_token="</s>",
    )
    chat = [
        {"role": m.role, "content": m.text}
        | ({"reasoning_content": m.reasoning} if m.reasoning is not None else {})
        for m in messages
    ]
    ids: list[int] = reference.apply_chat_template(
        chat, add_generation_prompt=True, tokenize=True, return_dict=False, **options
    )
    return ids


def folded(messages: list[ChatMessage]) -> list[ChatMessage]:
    """By hand: the system text at the head of the first user turn."""
    first = ChatMessage("user", f"{messages[0].text}\n\n{messages[1].text}")
    return [first, *messages[2:]]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_a_family_wants_is_found_by_probing(family: Family) -> None:
    template = ChatTemplate(family.template, bos_token=BOS, eos_token="</s>")
    reasoning = template.reasoning(thinking=True)
    assert template.takes_system is family.takes_system
    assert template.takes_repeats is family.takes_repeats
    assert template.thinking_switch == family.thinking_switch
    found = (reasoning.opening, reasoning.closing, reasoning.opened) if reasoning else None
    assert found == family.reasoning


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_ids_equal_those_of_transformers(family: Family, thinking: bool) -> None:
    messages = [SYSTEM, *TALK]
    expected = messages if family.takes_system else folded(messages)
    # Ours has a clock only for those who cannot do without, so that prompts stay equal.
    source = family.template.replace("strftime_now is defined", "false")
    ids = transformers_ids(source, expected, enable_thinking=thinking)
    encoded = tokenizer_of(family.template).encode_chat(messages, thinking=thinking)
    assert list(encoded.ids) == ids
    bos = Tokenizer.from_str(tokenizer_file()).token_to_id(BOS)
    assert ids.count(bos) == int(family.has_bos)
    assert encoded.head + sum(encoded.counts) + encoded.generation == len(ids)


@pytest.mark.parametrize("family", [f for f in FAMILIES if not f.takes_system], ids=lambda f: f.name)
def test_a_folded_system_text_is_counted_as_its_own(family: Family) -> None:
    with_system = tokenizer_of(family.template).encode_chat([SYSTEM, *TALK])
    alone = tokenizer_of(family.template).encode_chat(TALK)
    added = [one - other for one, other in zip(with_system.counts, (0, *alone.counts), strict=True)]
    opening = added[0] - len("Be brief. \n\n")  # what opens the first turn; text has a token a byte
    assert opening == -added[1] > 0
    assert added[2:] == [0, 0]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_message_that_was_never_answered_does_not_end_the_conversation(family: Family) -> None:
    messages = [ChatMessage("user", "one"), ChatMessage("user", "two"), *TALK]
    encoded = tokenizer_of(family.template).encode_chat(messages)
    text = tokenizer_of(family.template).decode(encoded.ids)
    assert text.index("one") < text.index("two") < text.index("hello")
    assert all(encoded.counts)


def test_reasoning_is_what_the_template_makes_of_it() -> None:
    thought = [TALK[0], ChatMessage("assistant", "Hi.", reasoning="They greet.\nSo do I."), TALK[2]]
    for template, kept in ((QWEN3, False), (KEEPS_REASONING, True)):
        ids = list(tokenizer_of(template).encode_chat(thought).ids)
        assert ids == transformers_ids(template, thought)
        assert ("They greet." in tokenizer_of(template).decode(ids)) is kept


def reply_of(tokenizer: ChatTokenizer, generated: str, thinking: bool) -> tuple[tuple[int, ...], ChatMessage]:
    """What the model read for its first reply and wrote, as ids, and that reply as it is stored."""
    prompt = tokenizer.encode_chat(TALK[:1], thinking=thinking).ids
    own = tuple(Tokenizer.from_str(tokenizer_file()).encode(generated).ids)
    thought, found, answer = generated.rpartition("</think>")
    reasoning = thought.removeprefix("<think>").strip() if found else None
    return prompt + own, ChatMessage(
        "assistant", answer.lstrip() if found else generated, own, reasoning=reasoning, thinking=thinking
    )


WHOLE = "<think>\nThey greet.\n</think>\n\nHi."


@pytest.mark.parametrize(
    ("template", "generated", "thinking", "lost"),
    [
        (KEEPS_REASONING, WHOLE, True, None),
        (KEEPS_REASONING, "Hi.", True, None),
        (KEEPS_REASONING, "Hi.", False, "begins earlier replies in another way"),
        (QWEN3, WHOLE, True, "leaves out the reasoning"),
        (QWEN3, "Hi.", False, "begins earlier replies in another way"),
        (KEEPS_REASONING, "<think> They greet. </think> Hi.", True, "other text than was generated"),
        (FAMILIES[2].template, " Hi.", True, None),
    ],
)
def test_the_next_prompt_goes_on_from_the_generated_ids_or_says_why_not(
    template: str, generated: str, thinking: bool, lost: str | None
) -> None:
    tokenizer = tokenizer_of(template)
    computed, reply = reply_of(tokenizer, generated, thinking)
    following = tokenizer.encode_chat([TALK[0], reply, TALK[2]], thinking=thinking)
    goes_on = following.ids[: len(computed)] == computed
    assert goes_on is (lost is None)
    assert (lost or "") in (following.reuse_lost or "")
    assert (following.reuse_lost is None) is goes_on


def test_an_answer_whose_reasoning_left_keeps_its_own_ids() -> None:
    tokenizer = tokenizer_of(QWEN3)
    # "Hi." with a hidden token in it, which no tokenizer would choose.
    hidden = Tokenizer.from_str(tokenizer_file()).token_to_id("<|end|>")
    thought = tokenizer.encode_text("<think>\nThey greet.\n</think>\n\n")
    answer = (*tokenizer.encode_text("H"), hidden, *tokenizer.encode_text("i."))
    reply = ChatMessage("assistant", "Hi.", (*thought, *answer), reasoning="They greet.", thinking=True)
    ids = tokenizer.encode_chat([TALK[0], reply, TALK[2]], thinking=True).ids
    assert answer in [ids[at : at + len(answer)] for at in range(len(ids))]
    assert "They greet." not in tokenizer.decode(ids)


def test_a_thinking_switch_changes_the_prompt_only_where_there_is_one() -> None:
    for family in FAMILIES:
        tokenizer = tokenizer_of(family.template)
        on, off = (tokenizer.encode_chat(TALK, thinking=thinking).ids for thinking in (True, False))
        assert (on != off) is (family.thinking_switch is not None)


def test_a_template_that_needs_a_date_keeps_the_day_it_was_loaded_on() -> None:
    dated, undated = ChatTemplate(FAMILIES[-1].template), ChatTemplate(FAMILIES[1].template)
    for template in (dated, undated):
        template.render(TALK, generation_prompt=True)
    assert dated.day is not None
    assert dated.day.strftime("%d %B %Y") in dated.render(TALK, generation_prompt=True)
    assert undated.day is None
    assert "26 Jul 2024" in undated.render(TALK, generation_prompt=True)
