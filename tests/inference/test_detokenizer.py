"""Text while tokens arrive: whole characters only, each as soon as it is whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.detokenizer import StopStrings, StreamingDetokenizer, token_text
from tests.inference.doubles import chat_tokenizer

TOKENIZER = chat_tokenizer()
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=80)


def stream(text: str) -> list[str]:
    detokenizer = StreamingDetokenizer(TOKENIZER.decode)
    return [detokenizer.add(token) for token in TOKENIZER.encode_text(text)]


@given(TEXT)
def test_the_pieces_make_the_text(text: str) -> None:
    assert "".join(stream(text)) == text


@given(TEXT)
def test_half_a_character_is_never_shown(text: str) -> None:
    assert all("\ufffd" not in piece for piece in stream(text))


def test_a_korean_syllable_comes_with_its_last_byte() -> None:
    assert stream("한국") == ["", "", "한", "", "", "국"]


def test_an_emoji_comes_with_its_last_byte_and_what_follows_at_once() -> None:
    assert stream("🔥a") == ["", "", "", "🔥", "a"]


def test_bytes_that_can_never_be_a_character_are_dropped() -> None:
    detokenizer = StreamingDetokenizer(TOKENIZER.decode)
    broken = TOKENIZER.encode_text("한")[:2] + TOKENIZER.encode_text("ok")
    assert "".join(detokenizer.add(token) for token in broken) == "ok"


def test_an_incomplete_end_is_not_shown() -> None:
    detokenizer = StreamingDetokenizer(TOKENIZER.decode)
    assert "".join(detokenizer.add(token) for token in TOKENIZER.encode_text("가나")[:-1]) == "가"


@given(TEXT, st.integers(1, 60))
def test_decoding_looks_at_a_bounded_window(text: str, length: int) -> None:
    seen: list[int] = []

    def decode(ids: object) -> str:
        seen.append(len(ids))  # type: ignore[arg-type]
        return TOKENIZER.decode(ids)  # type: ignore[arg-type]

    detokenizer = StreamingDetokenizer(decode)
    for token in TOKENIZER.encode_text((text + "a") * length):
        detokenizer.add(token)
    assert max(seen) < 32


@given(st.lists(st.integers(0, 255), max_size=60))
def test_the_texts_of_single_tokens_make_the_stream(ids: list[int]) -> None:
    detokenizer = StreamingDetokenizer(TOKENIZER.decode)
    streamed = [detokenizer.add(token) for token in ids]
    single = [token_text(TOKENIZER.decode, ids[max(0, at - 8) : at], token) for at, token in enumerate(ids)]
    assert single == streamed


def test_a_stop_string_split_over_pieces_is_never_shown() -> None:
    stops = StopStrings(["END"])
    assert [stops.add(piece) for piece in ("one E", "N", "D two")] == ["one ", "", ""]
    assert stops.found
    assert stops.flush() == ""


def test_text_that_only_looked_like_a_stop_string_is_given_back() -> None:
    stops = StopStrings(["END"])
    assert "".join(stops.add(piece) for piece in ("an E", "N", "E")) + stops.flush() == "an ENE"
    assert not stops.found


@given(TEXT, st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=3), st.integers(1, 5))
def test_the_text_ends_before_the_first_stop_string(text: str, stops: list[str], step: int) -> None:
    matcher = StopStrings(stops)
    shown = "".join(matcher.add(text[at : at + step]) for at in range(0, len(text), step)) + matcher.flush()
    hits = [at for at in (text.find(stop) for stop in stops) if at >= 0]
    assert shown.startswith(text[: min(hits)]) if hits else shown == text
    assert not any(stop in shown for stop in stops)
