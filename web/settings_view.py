"""What the sheet of settings shows: every sampling param in a sentence, its range and the model's default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference.context import MAX_RESERVE_SHARE, reserve_for
from inference.sampling_params import MAX_STOP_LENGTH, MAX_STOP_STRINGS, RANGES, Range, SamplingParams
from storage.records import Choices, PresetRecord
from web.language import msgid
from web.views import PresetView

OWN_PRESET = msgid("Standard")
EXACT_IN_BROWSERS = 2**53 - 1
"""Larger whole numbers lose digits in JavaScript."""

FIELDS = {
    "temperature": (
        msgid("Temperature"),
        msgid("How adventurous the wording is: at 0 it always takes the likeliest word."),
    ),
    "top_p": (
        msgid("Top-p"),
        msgid("Only the likeliest words that together make this share count; 1 lets all of them."),
    ),
    "top_k": (msgid("Top-k"), msgid("Only so many of the likeliest words count; 0 lets all of them.")),
    "min_p": (
        msgid("Min-p"),
        msgid("Words far less likely than the best one do not count; 0 lets all of them."),
    ),
    "repetition_penalty": (
        msgid("Repetition penalty"),
        msgid("Above 1, words that are already in the chat become less likely."),
    ),
    "presence_penalty": (
        msgid("Presence penalty"),
        msgid("Above 0, the reply turns to words that it has not used yet."),
    ),
    "frequency_penalty": (
        msgid("Frequency penalty"),
        msgid("Above 0, a word becomes less likely each time it is used."),
    ),
    "seed": (
        msgid("Seed"),
        msgid("The same number gives the same reply to the same chat; empty draws a new one each time."),
    ),
    "max_tokens": (
        msgid("Longest reply"),
        msgid("In tokens. So much of what the model can read is kept free for the answer."),
    ),
}
STOP = (msgid("Stop texts"), msgid("The reply ends before any of these, one a line."))


@dataclass(frozen=True, slots=True)
class FieldView:
    """One sampling param that is a number. `default` is the model's, `value` what was chosen; "" is neither.

    `label`, `sentence` and `default` are still to be translated. `lowest` itself is allowed unless `open`.
    """

    name: str
    label: str
    sentence: str
    default: str
    value: str
    allowed: Range
    lowest: str
    highest: str
    whole: bool
    open: bool


@dataclass(frozen=True, slots=True)
class StopView:
    """The texts that end a reply, one a line."""

    label: str
    sentence: str
    default: str
    value: str
    most: int = MAX_STOP_STRINGS
    longest: int = MAX_STOP_LENGTH


@dataclass(frozen=True, slots=True)
class ThinkingView:
    """Whether the model thinks before it answers: what was chosen, and what it does if nothing is."""

    chosen: bool | None
    otherwise: bool


@dataclass(frozen=True, slots=True)
class SettingsView:
    """The whole sheet. `conversation_id` is None before the first message. `thinking` is None where there
    is no choice.
    """

    fields: Sequence[FieldView]
    stop: StopView
    thinking: ThinkingView | None
    presets: Sequence[PresetView]
    system_prompt: str
    longest_prompt: int
    conversation_id: str | None
    is_own: bool
    is_owner: bool


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """The loaded model's own values and its context window, in tokens."""

    params: SamplingParams
    window: int


def field_views(choices: Choices, model: ModelDefaults | None) -> list[FieldView]:
    """Every field; without the model's defaults while it is not known."""
    return [_field(name, choices.params, model) for name in FIELDS]


def stop_view(choices: Choices, model: ModelDefaults | None) -> StopView:
    """The field for stop texts."""
    default = "\n".join(model.params.stop) if model else ""
    return StopView(*STOP, default=default or msgid("none"), value="\n".join(choices.params.get("stop", ())))


def choice_of(
    presets: Sequence[PresetRecord], own_prompt: str, system_prompt: str, person: str
) -> list[PresetView]:
    """The presets from which a person may choose; the one whose text it is is chosen."""
    views = [PresetView("", OWN_PRESET, own_prompt, system_prompt == own_prompt)]
    for preset in presets:
        chosen = preset.text == system_prompt and not any(view.chosen for view in views)
        is_own = preset.person == person
        views.append(PresetView(preset.id, preset.name, preset.text, chosen, preset.shared, is_own))
    return views


def _field(name: str, chosen: Mapping[str, Any], model: ModelDefaults | None) -> FieldView:
    label, sentence = FIELDS[name]
    allowed = _range(name, model)
    return FieldView(
        name=name,
        label=label,
        sentence=sentence,
        default=_default(name, model),
        value=spelled(chosen[name]) if name in chosen else "",
        allowed=allowed,
        lowest=spelled(allowed.lowest),
        highest=spelled(allowed.highest),
        whole=allowed.whole,
        open=allowed.open,
    )


def _range(name: str, model: ModelDefaults | None) -> Range:
    if name == "seed":
        return Range(0, EXACT_IN_BROWSERS, whole=True)
    if name == "max_tokens" and model is not None:
        return Range(1, max(1, model.window // MAX_RESERVE_SHARE), whole=True)
    return RANGES[name]


def _default(name: str, model: ModelDefaults | None) -> str:
    if model is None:
        return ""
    if name == "max_tokens":
        return spelled(reserve_for(model.window, model.params.max_tokens))
    value = getattr(model.params, name)
    return msgid("a new one") if value is None else spelled(value)


def spelled(value: float) -> str:
    """A param as people write it."""
    return str(value) if isinstance(value, int) else f"{value:g}"
