"""What this machine has to say about the glossary's terms, in its own numbers: sentences in one language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inference.context import reserve_for
from inference.kv_shape import KvShape
from inference.memory import MemoryPlan
from inference.models.prepared import PreparedModel
from inference.tally import EngineSnapshot
from inference.types import ModelDescription
from web.language import Language
from web.telemetry import Interval, Stored

CHAT_TOKENS = 1_000
"""Of the chat that the size of keys and values is told by."""


@dataclass(frozen=True, slots=True)
class Machine:
    """All that is known. `prepared` is None before the tokenizer is there, `shape` where it is unknown."""

    engine: EngineSnapshot
    prepared: PreparedModel | None
    shape: KvShape | None
    lately: Interval | None
    stored: Stored


def facts(language: Language, machine: Machine) -> dict[str, str]:
    """Sentences by the slugs of their terms."""
    found = {**dict(_measured(language, machine)), **dict(_shared(language, machine))}
    model, plan = machine.engine.model, machine.engine.plan
    if model is not None and plan is not None:
        found |= dict(_of_model(language, machine, model, plan))
    if machine.prepared is not None:
        window = plan.window if plan is not None else machine.prepared.context_window
        found |= dict(_of_files(language, machine.prepared, window))
    return found


def _measured(language: Language, machine: Machine) -> Iterator[tuple[str, str]]:
    """What shows with the first replies; until then, that it does."""
    t, counts = language.t, machine.engine.counts
    not_yet = t("Not measured yet: the first reply since the start will tell.")
    read_tok_s = counts.prefill_tokens / counts.prefill_s if counts.prefill_s > 0 else None
    yield (
        "prefill",
        t("Here, prompts were read at {n} tokens a second.", n=_rate(language, read_tok_s))
        if read_tok_s
        else not_yet,
    )
    chat_tok_s = counts.decode_tokens / counts.writing_s if counts.writing_s > 0 else None
    yield (
        "decode",
        t("Here, a chat was written at {n} tokens a second.", n=_rate(language, chat_tok_s))
        if chat_tok_s
        else not_yet,
    )
    ttft_s = counts.last_ttft_s
    yield (
        "ttft",
        t("The last reply here began after {n} s.", n=language.number(ttft_s, 2))
        if ttft_s is not None
        else not_yet,
    )
    yield "throughput", _throughput(language, machine.lately) or not_yet


def _throughput(language: Language, lately: Interval | None) -> str:
    if lately is None or lately.chat_tok_s is None:
        return ""
    return language.t(
        "In the last {minutes} minutes: one chat {chat} tokens a second while it was written; all chats "
        "together {server}, pauses included.",
        minutes=max(1, round(lately.seconds / 60)),
        chat=_rate(language, lately.chat_tok_s),
        server=_rate(language, lately.server_tok_s),
    )


def _shared(language: Language, machine: Machine) -> Iterator[tuple[str, str]]:
    """What is known without a loaded model."""
    today, in_all = machine.stored.today, machine.stored.in_all
    if in_all.prompt_tokens:
        rates = [
            language.number(100 * part.cached_tokens / part.prompt_tokens) if part.prompt_tokens else "–"
            for part in (today, in_all)
        ]
        yield (
            "prefix-cache",
            language.t("Hit rate here: today {today} %, in all {all} %.", today=rates[0], all=rates[1]),
        )
    else:
        yield "prefix-cache", language.t("Not measured yet: no reply is stored.")
    yield (
        "serving",
        language.t(
            "Since the start: {ended} replies ended, {running} running, {waiting} waiting.",
            ended=language.number(sum(machine.engine.ended.values())),
            running=len(machine.engine.running),
            waiting=machine.engine.waiting,
        ),
    )


def _of_model(
    language: Language, machine: Machine, model: ModelDescription, plan: MemoryPlan
) -> Iterator[tuple[str, str]]:
    t, number = language.t, language.number
    weights = number(model.weight_bytes / 2**20)
    yield "token", t("{model} knows {n} different tokens.", model=model.name, n=number(model.vocab_size))
    yield (
        "parameter",
        t(
            "{model} has {n} parameters, here in {mib} MiB.",
            model=model.name,
            n=language.short_number(model.parameters),
            mib=weights,
        ),
    )
    yield "kv-cache", _kv_cache(language, machine, model)
    window = t("Here, one chat may have {n} tokens.", n=number(plan.window))
    if plan.window < model.context_window:
        window = t(
            "The model would take {most} tokens; the free memory holds {n} for one chat.",
            most=number(model.context_window),
            n=number(plan.window),
        )
    yield "context-window", window
    how = language.sentence(model.quantization)
    yield "quantization", t("{model}: {quantization}.", model=model.name, quantization=how)
    sixteen = number(2 * model.parameters / 2**20)
    yield (
        "bf16",
        t(
            "In 16 bits {model} would take {mib} MiB; here it takes {own}.",
            model=model.name,
            mib=sixteen,
            own=weights,
        ),
    )
    yield "attention", _attention(language, machine.shape, model)
    yield (
        "continuous-batching",
        language.plural(
            "Here, memory allows {n} reply at once.",
            "Here, memory allows {n} replies at once.",
            plan.max_sequences,
        ),
    )
    yield (
        "on-device",
        language.plural(
            "It runs on this machine’s CPU, with {n} thread.",
            "It runs on this machine’s CPU, with {n} threads.",
            model.threads,
        )
        if model.device == "cpu"
        else t("It runs on this machine’s {device}.", device=model.device),
    )


def _kv_cache(language: Language, machine: Machine, model: ModelDescription) -> str:
    per_token, shape = model.kv_bytes_per_token, machine.shape
    whole = language.t(
        "{model}: {kib} KiB a token, so {mib} MiB for a chat of {tokens} tokens.",
        model=model.name,
        kib=language.number(per_token / 1024, 1),
        mib=language.number(CHAT_TOKENS * per_token / 2**20, 1),
        tokens=language.number(CHAT_TOKENS),
    )
    if shape is None:
        return whole
    factors = " × ".join(str(n) for n in (2, shape.layers, shape.heads, shape.head_dim, shape.value_bytes))
    return f"{whole} {factors} = " + language.t("{n} bytes a token.", n=language.number(per_token))


def _attention(language: Language, shape: KvShape | None, model: ModelDescription) -> str:
    if shape is None:
        return ""
    return language.t(
        "{model} does this in {layers} layers, each with {heads} heads that keep keys and values.",
        model=model.name,
        layers=shape.layers,
        heads=shape.heads,
    )


def _of_files(language: Language, prepared: PreparedModel, window: int) -> Iterator[tuple[str, str]]:
    params = prepared.defaults
    yield (
        "sampling-params",
        language.t(
            "{model} begins with temperature {temperature} and top-p {top_p}.",
            model=prepared.name,
            temperature=format(params.temperature, "g"),
            top_p=format(params.top_p, "g"),
        ),
    )
    yield (
        "max-tokens",
        language.t(
            "Unless you choose otherwise, {n} tokens are kept free for a reply here.",
            n=language.number(reserve_for(window, params.max_tokens)),
        ),
    )


def _rate(language: Language, value: float | None) -> str:
    return language.number(value, 1 if value < 10 else 0) if value is not None else "–"
