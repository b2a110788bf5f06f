"""Whether an imported conversation is one that the server can show and go on with. Any thread.

What a file says of a reply is read again later as if the server had written it, so it has to have the same
shape. Fields that are not known here are kept, and not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from inference.errors import InvalidParams
from inference.sampling_params import SamplingParams
from inference.types import Timings
from storage.errors import ImportRefused
from storage.records import Choices
from storage.transfer.schema import ExportedConversation, ExportedMessage, RowId
from web.opening import Chosen, ChosenParams, with_choices

Count = Annotated[int, Meta(ge=0, le=2**53)]
Kept = TypeVar("Kept")


class KeptUsage(Struct):
    """`inference.types.Usage`, with counts that are some."""

    prompt_tokens: Count
    cached_tokens: Count
    completion_tokens: Count
    reasoning_tokens: Count = 0
    kv_tokens: Count | None = None


class KeptShowing(Struct):
    """What `web.generations` adds to the timings."""

    first_shown_s: float | None = None
    renders: Count | None = None
    render_s: float | None = None


class KeptMachine(Struct):
    """What a reply ran on: `web.scorings.ran_on`."""

    source: str
    backend: str
    device: str
    quantization: str
    compute_dtype: str
    kv_bytes_per_token: Count
    kv_shape: tuple[Count, Count, Count, Count] | None = None


class KeptContext(Struct):
    """What is kept about a reply; of one that goes on, or never began, not all of it."""

    begun: Count = 0
    left_out: Sequence[RowId] = ()
    system_folded: bool = False
    thinking: bool | None = None
    reuse_lost: str | None = None
    template_hash: str | None = None
    template_sha256: str | None = None
    system_hash: str | None = None
    system_prompt: str | None = None
    prompt_hash: str | None = None
    tokenize_s: float | None = None
    repeats: RowId | None = None
    ran_on: KeptMachine | None = None
    continued: Sequence[dict[str, Any]] = ()


class KeptPrompt(Struct):
    """What `web.prompts` keeps about a prompt besides, all of it or nothing."""

    window: Count
    system: Count
    pinned: Count
    history: Count
    question: Count
    left_out: Sequence[RowId]
    reserve: Count = 0


def check(conversation: ExportedConversation) -> None:
    """Raises `ImportRefused`."""
    try:
        params = _shaped(conversation.params, ChosenParams) or ChosenParams()
        _ = Chosen(params, conversation.thinking).choices
    except (InvalidParams, msgspec.ValidationError) as error:
        raise ImportRefused(f"Its settings are none: {error}.") from None
    for message in conversation.messages:
        try:
            _check_record(message)
        except (InvalidParams, msgspec.ValidationError, TypeError, ValueError, KeyError) as error:
            raise ImportRefused(f"What it says of the reply {message.id} is none: {error}.") from None


def _check_record(message: ExportedMessage) -> None:
    _shaped(message.usage, KeptUsage)
    _shaped(message.timings, Timings)
    _shaped(message.timings, KeptShowing)
    _shaped(message.context, KeptContext)
    if "window" in (message.context or ()):
        _shaped(message.context, KeptPrompt)
    if message.params is not None:
        with_choices(SamplingParams(stop=tuple(message.params["stop"])), Choices(message.params))


def _shaped(value: Mapping[str, Any] | None, shape: type[Kept]) -> Kept | None:
    return None if value is None else msgspec.convert(value, shape)
