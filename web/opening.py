"""What a client chooses for a chat: the system prompt, sampling params, and whether the model thinks first.

The same struct comes with the first message of a chat and from the sheet of one that has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from inference.sampling_params import MAX_STOP_LENGTH, MAX_STOP_STRINGS, SamplingParams
from storage.records import Choices

MAX_SYSTEM_PROMPT = 8_000

SystemPrompt = Annotated[str, Meta(max_length=MAX_SYSTEM_PROMPT)]
StopText = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_LENGTH)]


class ChosenParams(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Sampling params in place of the model's defaults; null leaves them."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stop: Annotated[Sequence[StopText], Meta(max_length=MAX_STOP_STRINGS)] | None = None


class Chosen(Struct, frozen=True, forbid_unknown_fields=True):
    """What a person may choose beside the system prompt. `thinking` null leaves it to the server."""

    params: ChosenParams = ChosenParams()
    thinking: bool | None = None

    @property
    def choices(self) -> Choices:
        """As it is kept. Raises `InvalidParams` for a value out of its range."""
        choices = Choices(as_kept(self.params), self.thinking)
        with_choices(SamplingParams(), choices)
        return choices


class Opening(Chosen, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a chat is to be."""

    system_prompt: SystemPrompt

    @classmethod
    def of(cls, system_prompt: str, choices: Choices) -> Opening:
        """What is kept, as a client would choose it."""
        params = msgspec.convert(dict(choices.params), ChosenParams)
        return cls(params=params, thinking=choices.thinking, system_prompt=system_prompt)

    @property
    def texts(self) -> str:
        """All that people wrote in it."""
        return "".join((self.system_prompt, *(self.params.stop or ())))


def as_kept(params: ChosenParams) -> dict[str, Any]:
    """Only what was chosen, by its names."""
    chosen: dict[str, Any] = msgspec.to_builtins(params)
    return {name: value for name, value in chosen.items() if value is not None}


def with_choices(defaults: SamplingParams, choices: Choices) -> SamplingParams:
    """The model's defaults, but for what was chosen. Raises `InvalidParams`."""
    chosen = dict(choices.params)
    if "stop" in chosen:
        chosen["stop"] = tuple(chosen["stop"])
    return replace(defaults, **chosen)
