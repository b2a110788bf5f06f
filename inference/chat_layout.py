"""Where each message stands in a rendered chat, and what the template wrote around it. Torch-free, pure."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from inference.chat_template import ChatTemplate
from inference.types import ChatMessage

_AS_WRITTEN: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    str.strip,
    lambda text: text.strip("\n"),
    str.lstrip,
    lambda text: text.lstrip("\n"),
    str.rstrip,
    lambda text: text.rstrip("\n"),
)
"""What templates do to the text of a message: nothing, or they cut space off its ends."""


@dataclass(frozen=True, slots=True)
class Place:
    """One message in the rendered text: `before` + `reasoning` + `between` + `content`. Reasoning that the
    template leaves out is "".
    """

    before: str
    reasoning: str
    between: str
    content: str

    @property
    def body(self) -> str:
        """Everything from the reasoning on, or from the text where there is none."""
        return self.reasoning + self.between + self.content


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole rendered text: all messages, and what comes `after` the last."""

    turns: tuple[Place, ...]
    after: str

    def end_of(self, index: int) -> int:
        """Characters of the rendered text up to the end of message `index`."""
        return sum(len(place.before) + len(place.body) for place in self.turns[: index + 1])


@dataclass(frozen=True, slots=True)
class Marked:
    """A chat rendered with a mark in place of each text, and of each reasoning."""

    text: str
    contents: tuple[str, ...]
    reasonings: tuple[str, ...]


def mark_messages(
    template: ChatTemplate, chat: Sequence[ChatMessage], generation_prompt: bool, thinking: bool | None
) -> Marked:
    """Render the chat with marks that no message contains. Raises `TemplateFailed`."""
    nonce = secrets.token_hex(4)
    contents = tuple(f"\ue000{nonce}{index}\ue001" for index in range(len(chat)))
    reasonings = tuple(f"\ue000{nonce}r{index}\ue001" for index in range(len(chat)))
    marked = [
        replace(message, text=content, reasoning=reasoning if message.reasoning else message.reasoning)
        for message, content, reasoning in zip(chat, contents, reasonings, strict=True)
    ]
    text = template.render(marked, generation_prompt=generation_prompt, thinking=thinking)
    return Marked(text, contents, reasonings)


def lay_out(marked: Marked, chat: Sequence[ChatMessage], text: str) -> Layout | None:
    """Find in the rendered `text` what was marked; None where the template changed the messages otherwise
    than by cutting space off, or wrote them more than once or in another order.
    """
    glue, slots, rest = [], [], marked.text
    for message, content, reasoning in zip(chat, marked.contents, marked.reasonings, strict=True):
        before, found, rest = rest.partition(content)
        if not found:
            return None
        opening, thought, between = before.partition(reasoning)
        glue += [opening, between] if thought else [opening]
        slots += [message.reasoning or "", message.text] if thought else [message.text]
    glue.append(rest)
    written = _as_written(glue, slots, text)
    if written is None:
        return None
    turns, at = [], 0
    for reasoning in marked.reasonings:
        if reasoning in marked.text:
            turns.append(Place(glue[at], written[at], glue[at + 1], written[at + 1]))
            at += 2
        else:
            turns.append(Place(glue[at], "", "", written[at]))
            at += 1
    return Layout(tuple(turns), glue[-1])


def _as_written(glue: Sequence[str], slots: Sequence[str], text: str) -> list[str] | None:
    """What the template made of each slot; None where something else stands between the glue."""
    if not text.startswith(glue[0]):
        return None
    at, written = len(glue[0]), []
    for number, (slot, following) in enumerate(zip(slots, glue[1:], strict=True), start=1):
        last = number == len(slots)
        for cut in _AS_WRITTEN:
            candidate = cut(slot)
            end = at + len(candidate) + len(following)
            if text.startswith(candidate + following, at) and (not last or end == len(text)):
                break
        else:
            return None
        written.append(candidate)
        at = end
    return written
