"""What single tokens are: the bytes behind each, and which of them only together are characters. Torch-free.

A byte-level vocabulary spells bytes with letters (`ALPHABET`); one of SentencePiece spells a space as ▁ and
single bytes as <0xEC>.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Tokenizer

from inference.token_pieces import ALPHABET

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


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
        self._specials = {i: t.content for i, t in tokenizer.get_added_tokens_decoder().items() if t.special}
        decoder = json.dumps(json.loads(tokenizer.to_str()).get("decoder"))
        self._letters = ALPHABET if "ByteLevel" in decoder else None

    def data(self, token_id: int) -> bytes:
        """The bytes of a token; none for an id that is not in the vocabulary."""
        if token_id in self._specials:
            return self._specials[token_id].encode()
        spelled = self._tokenizer.id_to_token(token_id) or ""
        if self._letters is not None and all(letter in self._letters for letter in spelled):
            return bytes(self._letters[letter] for letter in spelled)
        byte = _BYTE.fullmatch(spelled)
        if byte is not None:
            return bytes.fromhex(byte[1])
        return (spelled if self._letters is not None else spelled.replace("\u2581", " ")).encode()

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
