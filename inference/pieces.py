"""What single tokens are: the bytes behind each, and which of them only together are characters. Torch-free.

A byte-level vocabulary spells bytes with letters (`ALPHABET`); one of SentencePiece spells a space as ▁ and
single bytes as <0xEC>.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
    """The byte that each character of byte-level BPE stands for.

    Printable bytes of Latin-1 stand for themselves, all others for the characters from U+0100 on, in order.
    Source: `bytes_to_unicode` in OpenAI's GPT-2 (src/encoder.py).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


ALPHABET = byte_alphabet()


@dataclass(frozen=True, slots=True)
class Piece:
    """One token. `data` are its bytes; of a `special` token, those of its name. `group` counts from 0 the
    shortest runs of tokens that are whole characters; `text` is what the group says, for its first token, and
    "" for those after it.
    """

    token_id: int
    data: bytes
    special: bool
    group: int
    text: str


class Pieces:
    """The vocabulary of a tokenizer as bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._added = {token_id: token.content for token_id, token in added.items()}
        self._specials = {token_id for token_id, token in added.items() if token.special}
        parts = [part.__getstate__() for part in (tokenizer.pre_tokenizer, tokenizer.decoder) if part]
        self._byte_level = any(b"ByteLevel" in part for part in parts)

    def data(self, token_id: int) -> bytes:
        """The bytes of a token; none for an id that is not in the vocabulary."""
        raw = self.exact(token_id)
        if raw is not None:
            return raw
        spelled = self._tokenizer.id_to_token(token_id) or ""
        return (spelled if self._byte_level else spelled.replace("\u2581", " ")).encode()

    def exact(self, token_id: int) -> bytes | None:
        """The bytes of a token whose spelling tells each of them; None for others."""
        if token_id in self._added:
            return self._added[token_id].encode()
        spelled = self._tokenizer.id_to_token(token_id) or ""
        if self._byte_level and spelled and all(letter in ALPHABET for letter in spelled):
            return bytes(ALPHABET[letter] for letter in spelled)
        byte = _BYTE.fullmatch(spelled)
        return bytes.fromhex(byte[1]) if byte is not None else None

    def text(self, token_id: int) -> str:
        """A token by itself; U+FFFD where its bytes are no characters."""
        return self.data(token_id).decode(errors="replace")

    def split(self, token_ids: Iterable[int]) -> list[Piece]:
        """Every token of a text, in groups that are whole characters (or bytes that never become any)."""
        pieces: list[Piece] = []
        open_ids: list[int] = []
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = ""
        for token_id in token_ids:
            special = token_id in self._specials
            if special and open_ids:
                text += decoder.decode(b"", final=True)
                self._close(pieces, open_ids, text)
                text = ""
            open_ids.append(token_id)
            text += decoder.decode(self.data(token_id))
            if not decoder.getstate()[0]:
                self._close(pieces, open_ids, text)
                text = ""
        if open_ids:
            self._close(pieces, open_ids, text + decoder.decode(b"", final=True))
        return pieces

    def _close(self, pieces: list[Piece], open_ids: list[int], text: str) -> None:
        group = pieces[-1].group + 1 if pieces else 0
        for place, token_id in enumerate(open_ids):
            said = "" if place else text
            pieces.append(Piece(token_id, self.data(token_id), token_id in self._specials, group, said))
        open_ids.clear()
