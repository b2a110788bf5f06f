"""The record of a reply: how it came about, from what is stored about it. Over HTTP; it changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from inference.context import reserve_for
from storage.access import Right
from storage.errors import NotFound
from storage.records import Choices, Json, MessageRecord
from web.errors import Refused
from web.permissions import reply_for
from web.review_views import KVView, ParamsForm, PartView, PathView, ReadView, RecordView
from web.scorings import ran_on
from web.services import Services
from web.settings_view import (
    EXACT_IN_BROWSERS,
    FIELDS,
    STOP,
    ModelDefaults,
    field_views,
    spelled,
    stop_view,
)
from web.versions import repetition_of

BEGINNING = 80
"""So many characters of a message stand for it."""


async def sheet(request: Request) -> Response:
    """The inside of the sheet of one reply."""
    services: Services = request.state.services
    view = await run_in_threadpool(_record_view, services, await reply_for(request, Right.READ))
    return HTMLResponse(await run_in_threadpool(services.presenter(request).record, view))


async def prompt(request: Request) -> Response:
    """What the model read before a reply, as text, special tokens included."""
    services: Services = request.state.services
    reply = await reply_for(request, Right.READ)
    return PlainTextResponse(await run_in_threadpool(_prompt_text, services, reply))


def _prompt_text(services: Services, reply: MessageRecord) -> str:
    try:
        ids = services.rereading.of(reply).prompt_ids
    except Refused as refused:
        raise NotFound(str(refused)) from None
    pieces = services.prompts.tokenizing().tokenizer.pieces
    return "".join(piece.text for piece in pieces.split(ids))


def _record_view(services: Services, reply: MessageRecord) -> RecordView:
    context, usage = reply.context or {}, reply.usage or {}
    siblings = services.branches.siblings(reply.conversation_id).get(reply.id)
    obstacle = _obstacle(services, reply)
    then: Json | None = context.get("ran_on")
    return RecordView(
        id=reply.id,
        tokens=len(reply.token_ids or ()),
        finish_reason=reply.finish_reason,
        interrupted=reply.status == "interrupted",
        path=_path(usage, reply.timings or {}, context),
        read=_read(services, reply, usage, context) if usage and "window" in context else None,
        kv=_kv(usage, then),
        params=list(params_in_words(reply.params or {}).items()),
        seed=(reply.params or {}).get("seed"),
        model=reply.model,
        ran_on=then,
        template=context.get("template_sha256") or _beginning_of_hash(context.get("template_hash")),
        system=_beginning_of_hash(context.get("system_hash")),
        obstacle=obstacle,
        doubt=None if obstacle else _doubt(then, ran_on(services.engine)),
        repetition=repetition_of(services.conversations, reply),
        compared_with=(siblings.previous_id or siblings.next_id) if siblings else None,
        form=_form(services, reply),
    )


def _beginning_of_hash(digits: str | None) -> str | None:
    return f"{digits}…" if digits else None


def _obstacle(services: Services, reply: MessageRecord) -> str | None:
    try:
        services.rereading.of(reply)
    except Refused as refused:
        return str(refused)
    return None


def _doubt(then: Json | None, now: Json | None) -> str | None:
    """Why the same seed may give another text although all else is the same, in English."""
    if now is None:
        return None
    if now["compute_dtype"] == "bfloat16":
        return "The model computes in bfloat16 here: rounding may turn a close choice the other way."
    if then is not None and any(then.get(name) != value for name, value in now.items()):
        return "It runs on something else than then: rounding may turn a close choice the other way."
    return None


def _path(usage: Json, timings: Json, context: Json) -> PathView:
    return PathView(
        begun=context.get("begun", 0),
        tokenize_s=context.get("tokenize_s"),
        queue_s=timings.get("queue_s"),
        prefill_s=timings.get("prefill_s"),
        prefilled=usage.get("prompt_tokens", 0) - usage.get("cached_tokens", 0),
        prefill_tok_s=timings.get("prefill_tok_s"),
        ttft_s=timings.get("ttft_s"),
        decode_s=timings.get("decode_s"),
        written=usage.get("completion_tokens", 0),
        decode_tok_s=timings.get("decode_tok_s"),
        drafted=timings.get("drafted_tokens", 0),
        accepted=timings.get("accepted_tokens", 0),
        first_shown_s=timings.get("first_shown_s"),
        renders=timings.get("renders"),
        render_s=timings.get("render_s"),
        total_s=timings.get("total_s"),
        stop_s=timings.get("stop_s"),
    )


def _read(services: Services, reply: MessageRecord, usage: Json, context: Json) -> ReadView:
    window, warm, prompt = context["window"], usage["cached_tokens"], usage["prompt_tokens"]
    begun, written = context.get("begun", 0), usage["completion_tokens"]
    sizes = {name: context[name] for name in ("system", "pinned", "history", "question")}
    sizes["reply"] = begun + written
    sizes["free"] = max(0, window - prompt - written)
    parts, place = [], 0
    for name, tokens in sizes.items():
        parts.append(PartView(name, tokens, _share(place, window), _share(place + tokens, window)))
        place += tokens
    return ReadView(
        parts=parts,
        window=window,
        prompt=prompt,
        warm=warm,
        warm_share=_share(warm, window),
        prompt_share=_share(prompt, window),
        used_share=_share(prompt + written, window),
        left_out=[_beginning(services, each, reply.conversation_id) for each in context["left_out"]],
        lost=context.get("reuse_lost"),
    )


def _share(tokens: int, window: int) -> float:
    return min(100.0, 100 * tokens / max(1, window))


def _beginning(services: Services, message_id: str, conversation_id: str) -> tuple[str, str]:
    """Whose message it is, and how it begins. Records that were imported may name what is elsewhere."""
    try:
        message = services.conversations.message(message_id, conversation_id)
    except NotFound:
        return "user", ""
    text = " ".join(message.text[: 2 * BEGINNING].split())
    return message.role, text if len(text) <= BEGINNING else text[: BEGINNING - 1] + "…"


def _kv(usage: Json, then: Json | None) -> KVView | None:
    if not usage.get("kv_tokens") or then is None:
        return None
    shape = then.get("kv_shape")
    return KVView(tuple(shape) if shape else None, then["kv_bytes_per_token"], usage["kv_tokens"])


def params_in_words(params: Json) -> dict[str, str]:
    """Sampling params by their labels, which are still to be translated."""
    shown = {FIELDS[name][0]: spelled(params[name]) for name in FIELDS if params.get(name) is not None}
    stops = ", ".join(repr(text) for text in params.get("stop", ()))
    return shown | ({STOP[0]: stops} if stops else {})


def _form(services: Services, reply: MessageRecord) -> ParamsForm | None:
    """The params of a reply, to be changed: those that are not the model's own are filled in."""
    tokenizing = services.engine.tokenizing
    if tokenizing is None:
        return None
    defaults = tokenizing.model.defaults
    kept: Mapping[str, Any] = reply.params or {}
    chosen = {name: kept[name] for name in FIELDS if kept.get(name) not in (None, getattr(defaults, name))}
    if chosen.get("max_tokens") == reserve_for(services.engine.window, defaults.max_tokens):
        del chosen["max_tokens"]
    if chosen.get("seed", 0) > EXACT_IN_BROWSERS:  # drawn before seeds were kept below that
        del chosen["seed"]
    if tuple(kept.get("stop", ())) != defaults.stop:
        chosen["stop"] = list(kept.get("stop", ()))
    model = ModelDefaults(defaults, services.engine.window)
    return ParamsForm(field_views(Choices(chosen), model), stop_view(Choices(chosen), model))
