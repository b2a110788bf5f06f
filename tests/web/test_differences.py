"""Where two texts differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from web.differences import MAX_PAIRS, differences

TEXTS = st.text(st.sampled_from("a b가\n.*😀"), max_size=40)


def changed(one: str, other: str) -> tuple[list[str], list[str]]:
    left, right = differences(one, other)
    return [s.text.strip() for s in left if s.changed], [s.text.strip() for s in right if s.changed]


def test_words_that_differ_are_marked_and_nothing_else() -> None:
    assert changed("one red house\nand a tree", "one blue house\nand a tree") == (["red"], ["blue"])
    assert changed("온돌은 따뜻해요", "온돌은 아주 따뜻해요") == ([], ["아주"])
    assert changed("same", "same") == ([], [])


@given(TEXTS, TEXTS)
def test_the_stretches_spell_both_texts_and_agree_on_what_is_the_same(one: str, other: str) -> None:
    left, right = differences(one, other)
    assert "".join(s.text for s in left) == one
    assert "".join(s.text for s in right) == other
    assert "".join(s.text for s in left if not s.changed) == "".join(s.text for s in right if not s.changed)


def test_long_passages_without_a_common_line_are_marked_as_a_whole() -> None:
    words = int(MAX_PAIRS**0.5) + 1
    assert len(changed("a " * words, "b " * words)[0]) == 1
