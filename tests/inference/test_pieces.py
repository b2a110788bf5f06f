"""What single tokens are, where a character takes several and where one is none."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models

from inference.pieces import Pieces
from tests.inference.doubles import END, byte_tokenizer


def ids(text: str) -> list[int]:
    return list(byte_tokenizer().encode(text).ids)


def test_the_bytes_of_a_character_are_one_group() -> None:
    split = Pieces(byte_tokenizer()).split([*ids("a가😀"), END])
    assert [piece.group for piece in split] == [0, 1, 1, 1, 2, 2, 2, 2, 3]
    assert [piece.text for piece in split] == ["a", "가", "", "", "😀", "", "", "", "<|im_end|>"]
    assert b"".join(piece.data for piece in split[:8]) == "a가😀".encode()
    assert [piece.special for piece in split] == [False] * 8 + [True]


def test_a_character_that_is_cut_short_is_not_made_up() -> None:
    cut = Pieces(byte_tokenizer()).split([*ids("가")[:2], END])
    assert [(piece.group, piece.text) for piece in cut] == [(0, "\ufffd"), (0, ""), (1, "<|im_end|>")]
    at_the_end = Pieces(byte_tokenizer()).split(ids("가")[:1])
    assert [(piece.data, piece.text) for piece in at_the_end] == [(b"\xea", "\ufffd")]


def test_spaces_and_single_bytes_of_sentencepiece_are_read() -> None:
    vocabulary = {"\u2581hi": 0, "<0xEA>": 1, "<0xB0>": 2, "<0x80>": 3}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback()])
    split = Pieces(tokenizer).split([0, 1, 2, 3])
    assert [piece.text for piece in split] == [" hi", "가", "", ""]
    assert [piece.data for piece in split] == [b" hi", b"\xea", b"\xb0", b"\x80"]
