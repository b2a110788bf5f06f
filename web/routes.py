"""Which address is answered by which handler."""

from __future__ import annotations

from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from web import (
    account,
    compare,
    device_list,
    devices,
    finding,
    learn,
    moves,
    pages,
    posts,
    preferences,
    presets,
    record,
    reply_tokens,
    status,
    tokens,
    transfer,
)
from web.assets import Assets
from web.chat import chat
from web.metrics import metrics
from web.presenter import STATIC, static_build
from web.sessions import PAIR_PATH


def routes() -> list[BaseRoute]:
    """All of them, the more particular ones first."""
    return [
        *_chat_routes(),
        *_review_routes(),
        *_transfer_routes(),
        Route("/api/pairing-code", devices.invite, methods=["POST"]),
        Route("/api/devices", device_list.piece),
        Route("/api/devices/{id}/rename", device_list.rename, methods=["POST"]),
        Route("/you", account.page),
        Route("/api/you/rename", account.rename, methods=["POST"]),
        Route("/api/you/password", account.password, methods=["POST"]),
        Route("/api/you/devices/{id}/disconnect", account.disconnect, methods=["POST"]),
        Route("/api/people/{id}/remove-password", device_list.remove_password, methods=["POST"]),
        Route("/api/people/{id}/rename", device_list.rename_person, methods=["POST"]),
        Route("/api/devices/{id}/disconnect", device_list.disconnect, methods=["POST"]),
        Route(PAIR_PATH, devices.connected),
        Route(PAIR_PATH, devices.pair, methods=["POST"]),
        Route("/tokens", tokens.page, methods=["GET", "POST"]),
        Route("/tokens/rows", tokens.rows, methods=["POST"]),
        Route("/tokens.csv", tokens.file, methods=["POST"]),
        Route("/status", status.page),
        Route("/status/now", status.now),
        Route("/learn", learn.page),
        Route("/metrics", metrics),
        Route("/health", pages.health),
        WebSocketRoute("/ws", chat),
        Route(f"/static/{static_build()}/offline.html", pages.offline),
        Route(f"/static/{static_build()}/texts/{{code}}.json", pages.script_texts),
        Mount(f"/static/{static_build()}", Assets(directory=STATIC)),
    ]


def _review_routes() -> list[BaseRoute]:
    """How a reply came about, its tokens, and versions beside each other."""
    return [
        Route("/api/messages/{id}/record", record.sheet),
        Route("/api/messages/{id}/prompt", record.prompt),
        Route("/compare/{id}", compare.page),
        Route("/replies/{id}/tokens", reply_tokens.page),
        Route("/api/replies/{id}/tokens", reply_tokens.window),
        Route("/api/replies/{id}/scores", reply_tokens.progress),
        Route("/api/replies/{id}/scores", reply_tokens.begin, methods=["POST"]),
        Route("/api/replies/{id}/scores/stop", reply_tokens.stop, methods=["POST"]),
    ]


def _chat_routes() -> list[BaseRoute]:
    """Talking, and finding what was said."""
    return [
        Route("/", pages.new_chat),
        Route("/c/{id}", pages.conversation),
        Route("/c/{id}/earlier", pages.earlier),
        Route("/conversations", moves.piece),
        Route("/search", finding.page),
        Route("/search/quick", finding.quick),
        Route("/api/conversations/{id}/rename", moves.rename, methods=["POST"]),
        Route("/api/conversations/{id}/pin", moves.pin, methods=["POST"]),
        Route("/api/conversations/{id}/archive", moves.archive, methods=["POST"]),
        Route("/api/conversations/{id}/share", moves.share, methods=["POST"]),
        Route("/api/conversations/{id}/delete", moves.delete, methods=["POST"]),
        Route("/api/conversations/{id}/restore", moves.restore, methods=["POST"]),
        Route("/api/messages/{id}/text", posts.source),
        Route("/messages", posts.command, methods=["POST"]),
        Route("/api/settings", preferences.sheet),
        Route("/api/opening", preferences.preview, methods=["POST"]),
        Route("/api/conversations/{id}/settings", preferences.sheet),
        Route("/api/conversations/{id}/settings", preferences.choose, methods=["POST"]),
        Route("/api/defaults", preferences.keep_defaults, methods=["POST"]),
        Route("/api/messages/{id}/pin", preferences.pin, methods=["POST"]),
        Route("/api/presets/{id}", presets.save, methods=["POST"]),
        Route("/api/presets/{id}/delete", presets.delete, methods=["POST"]),
    ]


def _transfer_routes() -> list[BaseRoute]:
    """Taking conversations out and in."""
    return [
        Route("/transfer", transfer.page),
        Route("/c/{id}/print", transfer.printed),
        Route("/api/conversations/{id}/export", transfer.export_one),
        Route("/api/export", transfer.export_all),
        Route("/api/import", transfer.upload, methods=["POST"]),
        Route("/api/import/{id}", transfer.progress),
        Route("/api/import/{id}/cancel", transfer.cancel, methods=["POST"]),
    ]
