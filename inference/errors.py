"""What can go wrong in `inference`, as one family.

InferenceError
├── ModelError                 the model cannot be found, fetched, read or loaded
│   ├── ModelNotFound          no such name, folder, file or repository
│   ├── ModelUnavailable       it exists, but cannot be fetched now; trying again may help
│   └── ModelUnusable          it was read and is damaged, of an unsupported kind, or unsafe
├── PromptTooLong              the question cannot fit in the context window; carries both numbers
├── TemplateFailed             the chat template refused the messages, or wanted too much memory
│   └── TemplateTooSlow        it computed for too long
├── InvalidParams              a sampling parameter is outside its range
├── OutOfMemory                a step found no memory on its device
├── NotANumber                 the model's output was NaN or infinite
├── EngineBusy                 the queue has no place for this person; carries the numbers
├── EngineStopped              the worker thread is gone
└── BenchFailed                a measurement, or the peer beside it, went wrong

A message says what was wrong, with the numbers, and what to do. Only `web` turns errors into frames,
status codes and exit codes.
"""

from __future__ import annotations


class InferenceError(Exception):
    """Base of every error that this package raises on purpose."""


class ModelError(InferenceError):
    """The model cannot be had or used."""


class ModelNotFound(ModelError):
    """Nothing answers to that model name."""


class ModelUnavailable(ModelError):
    """The model cannot be fetched at the moment; a later try may succeed."""


class ModelUnusable(ModelError):
    """The model's files are damaged, unsafe, or of a kind that Ondol cannot run."""


class PromptTooLong(InferenceError):
    """A message does not fit even with all history left out.

    Attributes:
        needed: tokens of system prompt, pinned messages, the message and the reserve together.
        limit: the context window in tokens.
        pinned: tokens of the pinned messages among them.
    """

    def __init__(self, needed: int, limit: int, pinned: int = 0) -> None:
        self.needed = needed
        self.limit = limit
        self.pinned = pinned
        parts = "the system prompt and room for the answer"
        way_out = f"Shorten it by {needed - limit:,} tokens."
        if pinned:
            parts = f"the system prompt, {pinned:,} tokens of pinned messages and room for the answer"
            way_out = f"Shorten it by {needed - limit:,} tokens, or unpin messages."
        super().__init__(
            f"This message needs {needed:,} tokens with {parts}, but the context window holds {limit:,}. "
            f"{way_out}"
        )


class TemplateFailed(InferenceError):
    """The model's chat template could not render the messages."""


class TemplateTooSlow(TemplateFailed):
    """The chat template was ended after the time it may take."""


class InvalidParams(InferenceError):
    """A sampling parameter, `name`, is outside its allowed range."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        self.name = name
        super().__init__(f"{name} is {value!r}; it must be {allowed}.")


class OutOfMemory(InferenceError):
    """A computation found no memory on the device. Raised by backends; `detail` is the library's own text."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(f"The memory for the computation ran out ({detail}).")


class NotANumber(InferenceError):
    """The model's output is no probability of anything."""

    def __init__(self) -> None:
        super().__init__(
            "The model's output was not a number, so the reply ends here. Ask again; if it comes back, start "
            "Ondol with --compute-dtype float32."
        )


class EngineBusy(InferenceError):
    """No place is left in the queue; `others_wait`: none of those that one person may have meanwhile."""

    def __init__(self, waiting: int, limit: int, *, others_wait: bool = False) -> None:
        self.waiting = waiting
        self.limit = limit
        taken = f"{waiting} of {limit} places in the queue are taken; try again in a moment."
        if others_wait:
            taken = (
                f"You have {waiting} in the queue already; while others wait too, {limit} is the most. "
                "Try again in a moment."
            )
        super().__init__(taken)


class EngineStopped(InferenceError):
    """The worker thread has stopped and takes no more requests."""


class BenchFailed(InferenceError):
    """What was measured is not what should have been, or a peer could not be measured."""
