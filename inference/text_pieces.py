"""How a tokenizer cuts a text, piece by piece, for people to look at. Torch-free; blocks: for pool threads.

Only tokenizer.json is read, so that models can be compared that are not loaded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from inference.errors import ModelUnusable
from inference.pieces import Pieces

LARGEST_FILE = 64 * 2**20
KEPT_TOKENIZERS = 4


@dataclass(frozen=True, slots=True)
class TextPiece:
    """One token. `parts` spell it: text, and bytes where it holds a character only in part."""

    token_id: int
    parts: tuple[str | bytes, ...]

    @property
    def raw(self) -> bytes:
        """All of it in UTF-8."""
        return b"".join(part if isinstance(part, bytes) else part.encode() for part in self.parts)


class TextTokenizer:
    """A tokenizer without its model: immutable once it is read."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Special tokens spelled in a text count as text from now on, as in a message."""
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self._vocabulary = Pieces(tokenizer)
        self._unknown = getattr(tokenizer.model, "unk_token", None)

    @classmethod
    def read(cls, file: Path) -> TextTokenizer:
        """Raises `ModelUnusable` for a file that cannot be read or has more than 64 MiB."""
        try:
            size = file.stat().st_size
            if size > LARGEST_FILE:
                raise ModelUnusable(f"{file.name} has {size:,} bytes; at most {LARGEST_FILE:,} are read.")
            return cls(Tokenizer.from_str(file.read_text("utf-8")))
        except ModelUnusable:
            raise
        except Exception as error:  # the tokenizers library raises bare Exception on a bad file
            raise _unreadable(file, error) from error

    def pieces(self, text: str) -> tuple[TextPiece, ...]:
        """The tokens of a text, in its order."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return tuple(self._pieces(encoding, text))

    def _pieces(self, encoding: Encoding, text: str) -> Iterator[TextPiece]:
        for token_id, token, (start, end) in zip(
            encoding.ids, encoding.tokens, encoding.offsets, strict=True
        ):
            yield TextPiece(token_id, self._parts(token_id, token, text[start:end]))

    def _parts(self, token_id: int, token: str, covered: str) -> tuple[str | bytes, ...]:
        if token == self._unknown:
            return (token,)
        raw = self._vocabulary.exact(token_id)
        return (covered,) if raw is None else spelled(raw)


def spelled(raw: bytes) -> tuple[str | bytes, ...]:
    """The text in some bytes, and between it what is no whole character."""
    characters = raw.decode("utf-8", "surrogateescape")
    return tuple(
        "".join(run) if whole else "".join(run).encode("utf-8", "surrogateescape")
        for whole, run in ((whole, list(run)) for whole, run in groupby(characters, _is_whole))
    )


def _unreadable(file: Path, error: Exception) -> ModelUnusable:
    why = error.strerror if isinstance(error, OSError) else error  # no path: this is shown to guests too
    return ModelUnusable(f"The tokenizer in {file.parent.name} cannot be read: {why}.")


def _is_whole(character: str) -> bool:
    return not "\udc80" <= character <= "\udcff"


class TokenizerShelf:
    """The tokenizers that were used last, at most four of them: a large one takes a second to read."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Path, int, int], TextTokenizer] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, file: Path) -> TextTokenizer:
        """Read it, unless that was done since it changed. Raises `ModelUnusable`."""
        try:
            stat = file.stat()
        except OSError as error:
            raise _unreadable(file, error) from error
        key = (file, stat.st_size, stat.st_mtime_ns)
        with self._lock:
            tokenizer = self._kept.get(key)
            if tokenizer is None:
                tokenizer = self._kept[key] = TextTokenizer.read(file)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT_TOKENIZERS:
                self._kept.popitem(last=False)
            return tokenizer

    def __len__(self) -> int:
        return len(self._kept)
