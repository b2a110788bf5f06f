"""Exports of other programs, written after what their sources write, and values for round trips."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

NOON = 1_700_000_000.25
Json = dict[str, Any]


def chatgpt_node(parent: str | None, role: str | None, *parts: Any, **content: Any) -> Json:
    """A node of ChatGPT's mapping; without a role its message is null."""
    if role is None:
        return {"message": None, "parent": parent, "children": []}
    metadata = content.pop("metadata", {})
    created = content.pop("create_time", None)
    body = {"content_type": "text", "parts": list(parts), **content} if parts or not content else content
    author = {"role": role, "name": None, "metadata": {}}
    message = {"author": author, "create_time": created, "content": body, "metadata": metadata}
    return {"message": message, "parent": parent, "children": []}


def chatgpt(mapping: Json, current: str | None = None, **changes: Any) -> Json:
    return {
        "title": "Trip",
        "conversation_id": "6f1c",
        "create_time": NOON,
        "update_time": NOON + 60,
        "mapping": {key: {"id": key, **node} for key, node in mapping.items()},
        "current_node": current or list(mapping)[-1],
        "moderation_results": [],
        **changes,
    }


def chatgpt_simple(number: int = 0, question: str = "Why?", answer: str = "Because.") -> Json:
    return chatgpt(
        {
            "root": chatgpt_node(None, None),
            "ask": chatgpt_node("root", "user", question, create_time=NOON + 1),
            "say": chatgpt_node("ask", "assistant", answer, metadata={"model_slug": "gpt-4o"}),
        },
        conversation_id=f"c{number}",
        title=f"No. {number}",
    )


def open_webui_message(key: str, parent: str | None, role: str, content: Any, **more: Any) -> Json:
    return {"id": key, "parentId": parent, "childrenIds": [], "role": role, "content": content, **more}


def open_webui(messages: Sequence[Json], current: str, **chat: Any) -> Json:
    tree = {message["id"]: message for message in messages}
    inner = {"title": "W", "models": ["llama3"], "history": {"currentId": current, "messages": tree}, **chat}
    return {"id": "w1", "user_id": "u", "title": "W", "chat": inner, "created_at": 1_700_000_000}


def llama_message(key: Any, parent: Any, role: str, content: str | None, **more: Any) -> Json:
    milliseconds = 1_700_000_000_000
    base = {"convId": "l1", "type": "text", "timestamp": milliseconds, "children": []}
    return {"id": key, "parent": parent, "role": role, "content": content, **base, **more}


def llama_cpp(messages: Sequence[Json], current: Any) -> Json:
    conversation = {"id": "l1", "name": "L", "lastModified": 1_700_000_060_000, "currNode": current}
    return {"conv": conversation, "messages": list(messages)}


def llama_lines(export: Json) -> bytes:
    """The same as JSON lines."""
    session = {"harness": "llama.cpp", "type": "session", **export["conv"]}
    lines = [session, *({"message": message, "type": "message"} for message in export["messages"])]
    return b"\n".join(json.dumps(line).encode() for line in lines)


def zipped(path: Any, files: dict[str, bytes], compression: int = ZIP_DEFLATED) -> None:
    with ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
