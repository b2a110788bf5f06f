"""Token ids to text while they are still arriving. One instance a sequence; worker thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Decode: TypeAlias = Callable[[Sequence[int]], str]

REPLACEMENT = "\ufffd"
_KEPT_TOKENS = 8
_WINDOW = 24


class StreamingDetokenizer:
    """Gives every character as soon as all of its bytes are there, and none before.

    Tokens are decoded in a short sliding window, since one token alone is ambiguous: its bytes may end
    inside a character, and some decoders treat the first token differently. Cost per token is bounded.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._given = 0  # characters of the window's text that were already given

    def add(self, token_id: int) -> str:
        """The text that became certain with this token; often empty inside a multi-byte character."""
        self._window.append(token_id)
        text = self._decode(self._window)
        certain = text.rstrip(REPLACEMENT)
        new = certain[self._given :]
        self._given = max(self._given, len(certain))
        if len(certain) == len(text) and len(self._window) >= _WINDOW:
            self._window = self._window[-_KEPT_TOKENS:]
            self._given = len(self._decode(self._window))
        # What is left of U+FFFD now comes from bytes that can never become a character.
        return new.replace(REPLACEMENT, "")


def token_text(decode: Decode, before: Sequence[int], token_id: int) -> str:
    """The text that a token adds after those `before` it (the last few suffice); empty while a character is
    incomplete, and for special tokens.
    """
    earlier = decode(before).rstrip(REPLACEMENT)
    text = decode([*before, token_id]).rstrip(REPLACEMENT)
    return text[len(earlier) :].replace(REPLACEMENT, "")


class StopStrings:
    """Ends a text before the first of several strings, holding back what may yet become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def add(self, text: str) -> str:
        """The text that may be shown. After a stop string was `found`, always empty."""
        if self.found or not self._stops:
            return "" if self.found else text
        text = self._held + text
        hits = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if hits:
            self.found = True
            self._held = ""
            return text[: min(hits)]
        keep = self._longest_beginning(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """What was held back, once no more text comes."""
        held, self._held = self._held, ""
        return held

    def _longest_beginning(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        longest = max(len(stop) for stop in self._stops) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
