"""Several messages as one turn, for chat templates that want it so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inference.types import ChatMessage

SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class Folded:
    """One turn as the template takes it, and the messages it consists of, by index and text."""

    message: ChatMessage
    indices: tuple[int, ...]
    texts: tuple[str, ...]

    def then(self, index: int, message: ChatMessage) -> Folded:
        """This turn and a further message in one; it takes that message's role, and has no own ids."""
        texts = (*self.texts, message.text)
        joined = ChatMessage(message.role, SEPARATOR.join(texts), None, message.pinned, message.key)
        return Folded(joined, (*self.indices, index), texts)

    def shares(self, content: str) -> Iterator[tuple[int, str]]:
        """Pairs of (index, text): what the template wrote, which may have lost space at its ends, divided
        among the messages. The space between two belongs to the first.
        """
        cut = len(self.message.text.rstrip()) - len(content.rstrip())
        end = -cut
        for index, text in zip(self.indices[:-1], self.texts[:-1], strict=True):
            begin, end = max(end, 0), end + len(text) + len(SEPARATOR)
            yield index, content[begin : max(end, 0)]
        yield self.indices[-1], content[max(end, 0) :]
