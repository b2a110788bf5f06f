"""Texts cut into pieces that are shown as they are, bytes of split characters too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from inference.errors import ModelUnusable
from inference.pieces import ALPHABET
from inference.text_pieces import KEPT_TOKENIZERS, LARGEST_FILE, TextTokenizer, TokenizerShelf
from tests.inference.doubles import byte_tokenizer


def merged_tokenizer() -> Tokenizer:
    """Byte-level BPE with merges, some of which end within a character."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["온돌이 따뜻해요. The floor is warm. 🔥🔥"] * 3, trainer)
    return tokenizer


MERGED = TextTokenizer(merged_tokenizer())


def test_the_alphabet_is_the_library_s_own() -> None:
    assert set(ALPHABET) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(ALPHABET.values()) == list(range(256))
    assert ALPHABET["Ġ"] == ord(" ")


@given(st.text(max_size=60))
def test_the_pieces_together_are_the_text(text: str) -> None:
    assert b"".join(piece.raw for piece in MERGED.pieces(text)) == text.encode()


def test_a_split_character_shows_as_its_bytes() -> None:
    pieces = TextTokenizer(byte_tokenizer()).pieces("a배 <|im_end|>")
    assert [piece.parts for piece in pieces[:5]] == [("a",), (b"\xeb",), (b"\xb0",), (b"\xb0",), (" ",)]
    assert len(pieces) == len("a배 <|im_end|>".encode())  # what is spelled in a text ends no turn


def test_tokens_for_single_bytes_show_as_bytes_and_marked_spaces_as_spaces() -> None:
    bytes_ = {f"<0x{byte:02X}>": byte for byte in range(256)}
    words = {word: 256 + i for i, word in enumerate(("<unk>", "▁", "h", "i", "▁h", "▁hi"))}
    merges = [("▁", "h"), ("▁h", "i")]
    model = models.BPE(vocab={**bytes_, **words}, merges=merges, byte_fallback=True, unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    parts = [piece.parts for piece in TextTokenizer(tokenizer).pieces("hi hi 배")]
    assert parts == [("h",), ("i",), (" hi",), (" ",), (b"\xeb",), (b"\xb0",), (b"\xb0",)]


def test_the_shelf_keeps_a_few_and_reads_a_changed_file_again(tmp_path: Path) -> None:
    shelf, files = TokenizerShelf(), [tmp_path / f"{n}" / "tokenizer.json" for n in range(6)]
    for file in files:
        file.parent.mkdir()
        byte_tokenizer().save(str(file))
        assert shelf.take(file) is shelf.take(file)
    assert len(shelf) == KEPT_TOKENIZERS
    before = shelf.take(files[-1])
    merged_tokenizer().save(str(files[-1]))
    assert shelf.take(files[-1]) is not before


def test_a_file_that_cannot_be_read_is_refused_without_its_path(tmp_path: Path) -> None:
    damaged, huge = tmp_path / "damaged.json", tmp_path / "huge.json"
    damaged.write_text("{")
    with huge.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(ModelUnusable, match="cannot be read"):
        TextTokenizer.read(damaged)
    with pytest.raises(ModelUnusable, match=re.escape(f"{LARGEST_FILE + 1:,} bytes")):
        TextTokenizer.read(huge)
    with pytest.raises(ModelUnusable) as refused:
        TokenizerShelf().take(tmp_path / "nothing" / "tokenizer.json")
    assert str(tmp_path) not in str(refused.value)
