"""What the model will read: system prompt + pinned + newest turns + question + reserve ≤ context window.

Counted in exact tokens of the rendered chat. When the next turn no longer fits, the oldest whole turns leave
until a quarter of the window is free again, so that the cached prefix then stays valid for many turns.
Nothing is ever left out silently: what was is part of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from inference.errors import PromptTooLong
from inference.reasoning import ReasoningFormat
from inference.tokenization import ChatTokenizer, EncodedChat
from inference.types import ChatMessage

DEFAULT_RESERVE = 1_024
MAX_RESERVE_SHARE = 4
FREED_SHARE = 4
QUESTION_KEY = "question"
"""The key of the question itself, which has no name yet: the cut when all history is left out."""


@dataclass(frozen=True, slots=True)
class ContextFit:
    """What the model would read, and what every part of it costs in tokens.

    system + pinned + history + question + begun is the length of `prompt_ids`, which end with the `begun`
    tokens that the answer has already. `cut_key` is the first message that
    the model reads, `QUESTION_KEY` when that is the question; None when nothing was cut. `left_out` are the
    keys of the messages that it does not read, oldest first. `system_folded` when the template has no system
    role, so that the system prompt heads the first message. `reasoning` is how the reply will mark its
    reasoning.
    """

    prompt_ids: tuple[int, ...]
    window: int
    system: int
    pinned: int
    history: int
    question: int
    begun: int
    reserve: int
    cut_key: str | None
    left_out: tuple[str, ...]
    reuse_lost: str | None
    system_folded: bool
    reasoning: ReasoningFormat | None

    @property
    def excess(self) -> int:
        """Tokens that must go before the question can be sent; 0 when it fits."""
        return max(0, len(self.prompt_ids) + self.reserve - self.window)


def reserve_for(window: int, max_tokens: int | None) -> int:
    """Tokens kept free for the answer: `max_tokens`, by default 1,024, and at most a quarter of the
    window.
    """
    return max(1, min(max_tokens or DEFAULT_RESERVE, window // MAX_RESERVE_SHARE))


def fit(
    tokenizer: ChatTokenizer,
    system: str,
    history: Sequence[ChatMessage],
    question: str,
    *,
    window: int,
    max_tokens: int | None = None,
    cut_key: str | None = None,
    begun: tuple[int, ...] = (),
    thinking: bool | None = None,
) -> ContextFit:
    """Decide what the model reads. Raises `PromptTooLong` when the question cannot fit even alone.

    begun: ids of the answer's beginning, where it was cut short and is to go on. thinking: whether the model
    is to reason first, where its chat template has a switch for that.
    """
    result = measure(
        tokenizer,
        system,
        history,
        question,
        window=window,
        max_tokens=max_tokens,
        cut_key=cut_key,
        begun=begun,
        thinking=thinking,
    )
    if result.excess:
        raise PromptTooLong(len(result.prompt_ids) + result.reserve, window, result.pinned)
    return result


def measure(
    tokenizer: ChatTokenizer,
    system: str,
    history: Sequence[ChatMessage],
    question: str,
    *,
    window: int,
    max_tokens: int | None = None,
    cut_key: str | None = None,
    begun: tuple[int, ...] = (),
    thinking: bool | None = None,
) -> ContextFit:
    """As `fit`, but a question that cannot fit is told by `excess`: for showing the numbers while somebody
    types.
    """
    turns = _split_turns(history)
    reserve = reserve_for(window, max_tokens)
    needed = reserve + len(begun)
    chat = _Chat(tokenizer, system, turns, question, thinking)
    view = _View.read(chat, _cut_index(turns, cut_key))
    if view.tokens + needed > window:
        start = view.start_after_dropping(view.tokens + needed - window * (FREED_SHARE - 1) // FREED_SHARE)
        view = _View.read(chat, start)
        while view.tokens + needed > window and view.start < len(turns):
            view = _View.read(chat, view.start + 1)
    return view.as_fit(window, reserve, begun)


@dataclass(frozen=True, slots=True)
class _Chat:
    """Everything that was said, of which the model may read a part."""

    tokenizer: ChatTokenizer
    system: str
    turns: Sequence[Sequence[ChatMessage]]
    question: str
    thinking: bool | None


@dataclass(frozen=True, slots=True)
class _View:
    """A chat as read from turn `start` on (pinned turns before it included), encoded."""

    chat: _Chat
    start: int
    kept: Sequence[int]
    encoded: EncodedChat

    @classmethod
    def read(cls, chat: _Chat, start: int) -> _View:
        kept = [index for index, turn in enumerate(chat.turns) if index >= start or _is_pinned(turn)]
        messages = [ChatMessage("system", chat.system)] if chat.system else []
        messages += [message for index in kept for message in chat.turns[index]]
        messages.append(ChatMessage("user", chat.question))
        return cls(chat, start, kept, chat.tokenizer.encode_chat(messages, thinking=chat.thinking))

    @property
    def turns(self) -> Sequence[Sequence[ChatMessage]]:
        return self.chat.turns

    @property
    def tokens(self) -> int:
        return len(self.encoded.ids)

    def turn_counts(self) -> list[int]:
        """Tokens of each kept turn."""
        counts = iter(self.encoded.counts[1 if self.chat.system else 0 :])
        return [sum(next(counts) for _ in self.turns[index]) for index in self.kept]

    def start_after_dropping(self, excess: int) -> int:
        """The first turn to keep, so that unpinned older ones free at least `excess` tokens, or all they
        have.
        """
        freeable = [
            (index, count)
            for index, count in zip(self.kept, self.turn_counts(), strict=True)
            if index >= self.start and not _is_pinned(self.turns[index])
        ]
        freed = accumulate(count for _, count in freeable)
        return next(
            (index + 1 for (index, _), total in zip(freeable, freed, strict=True) if total >= excess),
            len(self.turns),
        )

    def as_fit(self, window: int, reserve: int, begun: tuple[int, ...]) -> ContextFit:
        encoded, kept = self.encoded, set(self.kept)
        per_turn = dict(zip(self.kept, self.turn_counts(), strict=True))
        system = encoded.head + (encoded.counts[0] if self.chat.system else 0)
        pinned = sum(count for index, count in per_turn.items() if _is_pinned(self.turns[index]))
        left_out = tuple(
            message.key for index, turn in enumerate(self.turns) if index not in kept for message in turn
        )
        template = self.chat.tokenizer.template
        first = self.turns[self.start][0].key if self.start < len(self.turns) else QUESTION_KEY
        return ContextFit(
            prompt_ids=(*encoded.ids, *begun),
            window=window,
            system=system,
            pinned=pinned,
            history=sum(per_turn.values()) - pinned,
            question=encoded.counts[-1] + encoded.generation,
            begun=len(begun),
            reserve=reserve,
            cut_key=first if left_out else None,
            left_out=left_out,
            reuse_lost=encoded.reuse_lost,
            system_folded=bool(self.chat.system) and not template.takes_system,
            reasoning=template.reasoning(self.chat.thinking),
        )


def _split_turns(history: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """A turn begins with a user message and holds everything up to the next one."""
    turns: list[list[ChatMessage]] = []
    for message in history:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def _cut_index(turns: Sequence[Sequence[ChatMessage]], cut_key: str | None) -> int:
    """Where the stored cut lies on this branch; 0 when it lies on another one."""
    if cut_key is None:
        return 0
    return next((i for i, turn in enumerate(turns) if any(m.key == cut_key for m in turn)), 0)


def _is_pinned(turn: Sequence[ChatMessage]) -> bool:
    return any(message.pinned for message in turn)
