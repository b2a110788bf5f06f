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


class KeptContext(Struct):
    """What `web.prompts` keeps about a reply's prompt. Of a reply that goes on it is not there yet."""

    window: Count = 0
    system: Count = 0
    pinned: Count = 0
    history: Count = 0
    question: Count = 0
    begun: Count = 0
    reserve: Count = 0
    left_out: Sequence[RowId] = ()
    system_folded: bool = False
    thinking: bool | None = None
    reuse_lost: str | None = None
    template_hash: str | None = None
    system_hash: str | None = None
    continued: Sequence[dict[str, Any]] = ()


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
    _shaped(message.context, KeptContext)
    if message.params is not None:
        with_choices(SamplingParams(stop=tuple(message.params["stop"])), Choices(message.params))


def _shaped(value: Mapping[str, Any] | None, shape: type[Kept]) -> Kept | None:
    return None if value is None else msgspec.convert(value, shape)
