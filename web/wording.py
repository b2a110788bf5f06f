"""Short texts for people that the server writes: progress, days, what runs."""

from __future__ import annotations

from datetime import date

from inference.memory import MemoryPlan
from inference.sampling_params import Range
from inference.types import ModelDescription, Prefill, Queued
from web.language import Language, msgid

LONG_S = 90


PINNED = msgid("Pinned")


def day_label(day: date, today: date) -> str | date:
    """The heading for conversations of that day: a text to be translated, or the first day of a month."""
    age_days = (today - day).days
    if age_days <= 0:
        return msgid("Today")
    if age_days == 1:
        return msgid("Yesterday")
    return msgid("Previous 7 days") if age_days <= 7 else day.replace(day=1)


def label_in_words(language: Language, label: str | date) -> str:
    """What `day_label` gave, or another heading of the list, in a person's language."""
    return language.t(label) if isinstance(label, str) else language.month(label)


def waiting_line(language: Language, progress: Queued | Prefill | None) -> str:
    """What happens while a reply has no text yet."""
    if isinstance(progress, Prefill):
        return language.plural(
            "reading {done} of {n} token, {cached} warm",
            "reading {done} of {n} tokens, {cached} warm",
            progress.total,
            done=language.number(progress.done),
            cached=language.number(progress.cached),
        )
    return _queue_line(language, progress) if progress else language.t("waiting for its turn")


def _queue_line(language: Language, queued: Queued) -> str:
    is_next = queued.position <= 1
    if queued.loading and is_next:
        return language.t("the model is still loading")
    place = (
        language.t("next in line")
        if is_next
        else language.t("{ordinal} in line", ordinal=language.ordinal(queued.position))
    )
    if queued.loading:
        return language.t("the model is still loading, {place}", place=place)
    if queued.eta_s is None:
        return place
    return language.t("{place}, {duration}", place=place, duration=_about(language, queued.eta_s))


def _about(language: Language, seconds: float) -> str:
    if seconds < LONG_S:
        return language.t("about {n} s", n=max(1, round(seconds)))
    return language.t("about {n} min", n=round(seconds / 60))


def duration_words(language: Language, seconds: float) -> str:
    """A measured time, in three digits or so."""
    if seconds < 1:
        milliseconds = 1_000 * seconds
        return language.t("{n} ms", n=language.number(milliseconds, 1 if milliseconds < 10 else 0))
    return language.t("{n} s", n=language.number(seconds, 2 if seconds < 10 else 1))


def thought_words(language: Language, seconds: float | None) -> str:
    """What the reasoning of a reply is folded under; None where nobody measured it."""
    if seconds is None:
        return language.t("Thought")
    if seconds < 60:
        return language.t("Thought for {seconds} s", seconds=language.number(seconds, 1))
    minutes, rest = divmod(round(seconds), 60)
    return language.t("Thought for {minutes} min {seconds} s", minutes=minutes, seconds=rest)


def size_in_words(language: Language, description: ModelDescription) -> str:
    """How large the model is."""
    return language.t("{number} parameters", number=language.short_number(description.parameters))


def runs_in_words(language: Language, description: ModelDescription, plan: MemoryPlan) -> str:
    """What runs and how much fits, in a few sentences."""
    on_cpu = description.device == "cpu"
    kernels = f" ({description.kernels})" if description.kernels else ""
    return " ".join(
        (
            size_in_words(language, description) + ".",
            language.sentence(description.quantization) + ".",
            language.t(
                "{backend} on {device}, computing in {dtype}.",
                backend=description.backend + kernels,
                device=language.plural("CPU, {n} thread", "CPU, {n} threads", description.threads)
                if on_cpu
                else description.device,
                dtype=description.compute_dtype,
            ),
            language.t(
                "{mib} MiB of weights, {kib} KiB of keys and values per token, a window of {window} tokens.",
                mib=language.number(description.weight_bytes / 2**20),
                kib=language.number(description.kv_bytes_per_token / 1024),
                window=language.number(plan.window),
            ),
            at_once_in_words(language, plan),
            *([language.sentence(description.note)] if description.note else ()),
        )
    )


def at_once_in_words(language: Language, plan: MemoryPlan) -> str:
    """How many replies the free memory holds side by side."""
    return language.plural(
        "One reply at a time, with room for {tokens} tokens together.",
        "Up to {n} replies at once, with room for {tokens} tokens together.",
        plan.max_sequences,
        tokens=language.number(plan.kv_tokens),
    )


def range_in_words(language: Language, allowed: Range) -> str:
    """Between which values a sampling param may be."""
    ends = {"lowest": _grouped(allowed.lowest), "highest": _grouped(allowed.highest)}
    if allowed.open:
        return language.t("above {lowest}, up to {highest}", **ends)
    if allowed.whole:
        return language.t("whole numbers, {lowest} to {highest}", **ends)
    return language.t("{lowest} to {highest}", **ends)


def _grouped(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
