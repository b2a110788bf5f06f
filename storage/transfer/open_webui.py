"""Open WebUI's export: an array of chats, each with `chat.history.messages` (a tree by ids) and `currentId`.

Older ones have only `messages`, a list; the oldest have no `chat` around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from msgspec import Struct

from storage.errors import ImportRefused
from storage.transfer.decoding import decode, file_names, text_of
from storage.transfer.schema import ExportedConversation
from storage.transfer.trees import Node, Source, converted, moment

ORIGIN = "Open WebUI"

_DETAILS = re.compile(r'<details type="(\w+)"([^>]*)>(.*?)</details>\s*', re.DOTALL)
_SUMMARY = re.compile(r"^\s*<summary>.*?</summary>", re.DOTALL)
_NAME = re.compile(r'\bname="([^"]*)"')


class _Message(Struct, rename="camel"):
    id: str | None = None
    parent_id: str | None = None
    role: str | None = None
    content: Any = None
    model: Any = None
    timestamp: float | None = None
    files: Any = None


class _History(Struct, rename="camel"):
    messages: dict[str, _Message] | None = None
    current_id: str | None = None


class _Chat(Struct):
    title: str | None = None
    history: _History | None = None
    messages: list[_Message] | None = None
    system: Any = None
    params: Any = None


class _Item(_Chat):
    id: str | None = None
    chat: _Chat | None = None
    created_at: float | None = None
    updated_at: float | None = None
    timestamp: float | None = None


def read(piece: bytes) -> ExportedConversation:
    """One conversation. Raises `ImportRefused`."""
    item = decode(piece, _Item)
    chat = item.chat or item
    nodes, head_id = _nodes(chat)
    if not nodes:
        raise ImportRefused("It has no messages.")
    params = chat.params if isinstance(chat.params, Mapping) else {}
    spoken = [node.text for node in nodes if node.role == "user"]
    return converted(
        Source(
            origin=ORIGIN,
            # Without an id of its own, what was said in it tells it from others.
            id=item.id or "\n".join([text_of(item.title), nodes[0].id, *spoken]),
            title=item.title or chat.title or "",
            nodes=nodes,
            head_id=head_id,
            system_prompt=text_of(params.get("system")) or text_of(chat.system) or _system(chat),
            created_at=moment(item.created_at or item.timestamp),
            updated_at=moment(item.updated_at or item.timestamp),
        )
    )


def _nodes(chat: _Chat) -> tuple[list[Node], str | None]:
    if chat.history is not None and chat.history.messages:
        tree = chat.history.messages
        return [_node(key, message, message.parent_id) for key, message in tree.items()], (
            chat.history.current_id
        )
    nodes: list[Node] = []
    for number, message in enumerate(chat.messages or ()):
        nodes.append(_node(f"{number}", message, nodes[-1].id if nodes else None))
    return nodes, nodes[-1].id if nodes else None


def _node(node_id: str, message: _Message, parent_id: str | None) -> Node:
    if message.role == "system":
        return Node(node_id, parent_id, "assistant")
    text, reasoning = _told_apart(_text(message.content))
    return Node(
        node_id,
        parent_id,
        "user" if message.role == "user" else "assistant",
        text="\n\n".join(part for part in (text, *file_names(message.files)) if part.strip()),
        created_at=moment(message.timestamp),
        model=text_of(message.model),
        reasoning=reasoning,
    )


def _text(content: Any) -> str:
    """What a message says: a text, or a list of parts as the OpenAI interface has them."""
    if not isinstance(content, list):
        return text_of(content)
    parts = [part if isinstance(part, Mapping) else {"text": part} for part in content]
    texts = [text_of(part.get("text")) or f"[{text_of(part.get('type')) or 'part'}]" for part in parts]
    return "\n\n".join(texts).replace("[image_url]", "[image]")


def _told_apart(content: str) -> tuple[str, str]:
    """The answer and the reasoning: that stands in the answer, folded, as do calls of tools."""
    if "<details" not in content:
        return content, ""
    reasoning: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        if found[1] == "reasoning":
            lines = _SUMMARY.sub("", found[3]).strip().splitlines()
            reasoning.append("\n".join(unescape(line.removeprefix(">").strip()) for line in lines))
            return ""
        name = _NAME.search(found[2])
        return f"[tool: {unescape(name[1])}]\n\n" if name else f"[{found[1]}]\n\n"

    return _DETAILS.sub(replaced, content), "\n\n".join(reasoning)


def _system(chat: _Chat) -> str:
    tree = chat.history.messages if chat.history else None
    messages = list((tree or {}).values()) or (chat.messages or [])
    return next((_text(m.content) for m in messages if m.role == "system" and _text(m.content)), "")
