"""What a reasoning model thinks before it answers, told from the answer while both are still arriving."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG = r"(?:<[^<>\s/][^<>\s]*>|\[[^\[\]\s/][^\[\]\s]*\])"
_CLOSING_TAG = r"(?:</[^<>\s]+>|\[/[^\[\]\s]+\])"
_LAST_TAG = re.compile(rf"({_TAG})\s*$")
_FIRST_CLOSING = re.compile(rf"^\s*({_CLOSING_TAG})")
_SPELLED = re.compile(r"</([a-z:_]*think[a-z:_]*)>")


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """The marks that a model puts around its reasoning, such as `<think>` and `</think>`.

    `opened` when the generation prompt ends within the reasoning, so that the model writes only the second.
    """

    opening: str
    closing: str
    opened: bool = False


def format_around(before: str, after: str) -> ReasoningFormat | None:
    """The marks as they stand around reasoning in a rendered chat; None where they are no pair of tags."""
    opening, closing = _LAST_TAG.search(before), _FIRST_CLOSING.search(after)
    return ReasoningFormat(opening[1], closing[1]) if opening and closing else None


def format_spelled_in(source: str) -> ReasoningFormat | None:
    """The marks that a template names in order to cut reasoning out."""
    found = _SPELLED.search(source)
    return ReasoningFormat(f"<{found[1]}>", f"</{found[1]}>") if found else None


class ReasoningSplitter:
    """Splits the text of one reply as it arrives. One instance a sequence; worker thread.

    Reasoning can only stand at the very beginning: marks further on are text like any other. Space around the
    marks belongs to neither part. Reasoning that is not closed stays reasoning.
    """

    def __init__(self, reasoning: ReasoningFormat | None) -> None:
        self._format = reasoning
        self._held = ""  # what may yet become a mark, or is space that may precede one
        self._place = "opening" if reasoning else "answer"
        self._begun = False

    @property
    def has_reasoning(self) -> bool:
        """Whether the reply began with reasoning."""
        return self._begun

    @property
    def in_answer(self) -> bool:
        """Whether the reasoning, if there was any, is over."""
        return self._place in ("after", "answer")

    def add(self, text: str) -> tuple[str, str]:
        """The new reasoning and the new part of the answer."""
        if self._place == "answer" or self._format is None:
            return "", text
        text = self._held + text
        self._held = ""
        if self._place == "opening":
            text = self._past_opening(text, self._format)
        if self._place == "before":
            text = text.lstrip()
            self._place = "reasoning" if text else "before"
        reasoning = ""
        if self._place == "reasoning":
            reasoning, text = self._until_closing(text, self._format.closing)
        if self._place == "after":
            text = text.lstrip()
            self._place = "answer" if text else "after"
        return (reasoning, text) if self._place == "answer" else (reasoning, "")

    def flush(self) -> tuple[str, str]:
        """What was held back, once no more text comes."""
        held, self._held = self._held, ""
        if self._place == "reasoning":
            given = held.rstrip()
            self._held = held[len(given) :]  # for a reply that goes on
            return given, ""
        opened = self._format is not None and self._format.opened
        return (held.strip(), "") if self._place == "opening" and opened else ("", held)

    def _past_opening(self, text: str, marks: ReasoningFormat) -> str:
        """Decide whether the reply begins with reasoning; "" while that is open."""
        begun = text.lstrip()
        if begun.startswith(marks.opening):
            self._place, self._begun = "before", True
            return begun[len(marks.opening) :]
        if marks.opening.startswith(begun):
            self._held = text
            return ""
        self._place, self._begun = ("before", True) if marks.opened else ("answer", False)
        return text

    def _until_closing(self, text: str, closing: str) -> tuple[str, str]:
        """The reasoning in `text`, and what follows its end; what may belong to the end is held back."""
        reasoning, found, rest = text.partition(closing)
        if found:
            self._place = "after"
            return reasoning.rstrip(), rest
        longest = min(len(closing) - 1, len(text))
        keep = next((n for n in range(longest, 0, -1) if closing.startswith(text[-n:])), 0)
        certain = text[: len(text) - keep].rstrip()
        self._held = text[len(certain) :]
        return certain, ""
