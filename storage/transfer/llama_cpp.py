"""The export of llama.cpp's page: `{conv, messages}`, an array of those, or JSON lines.

Of JSON lines the first is the conversation (`type` session) and each further one a message (`type` message).
Messages have `parent`; the first is a root without text, a second may be the system prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from storage.errors import ImportRefused
from storage.transfer.decoding import decode, fenced, file_names, text_of
from storage.transfer.schema import ExportedConversation
from storage.transfer.trees import Node, Source, converted, moment

ORIGIN = "llama.cpp"


class _Extra(Struct):
    type: Any = None
    name: Any = None
    content: Any = None


class _Message(Struct, rename="camel"):
    id: Any = None
    parent: Any = None
    type: Any = None
    role: str | None = None
    content: Any = None
    timestamp: float | None = None
    thinking: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None
    extra: list[_Extra] | None = None
    model: Any = None


class _Conversation(Struct, rename="camel"):
    id: str | None = None
    name: str | None = None
    last_modified: float | None = None
    curr_node: Any = None


class _Export(Struct):
    conv: _Conversation
    messages: list[_Message]


class _Line(Struct):
    message: _Message


def read(piece: bytes) -> ExportedConversation:
    """One conversation of a JSON export. Raises `ImportRefused`."""
    export = decode(piece, _Export)
    return _converted(export.conv, export.messages)


def read_lines(session: bytes, lines: Sequence[bytes]) -> ExportedConversation:
    """One conversation of JSON lines. Raises `ImportRefused`."""
    messages = [decode(line, _Line).message for line in lines]
    return _converted(decode(session, _Conversation), messages)


def _converted(conversation: _Conversation, messages: Sequence[_Message]) -> ExportedConversation:
    nodes = [_node(message, number) for number, message in enumerate(messages)]
    if not nodes:
        raise ImportRefused("It has no messages.")
    system = [text_of(m.content) for m in messages if m.role == "system"]
    return converted(
        Source(
            origin=ORIGIN,
            id=conversation.id or nodes[0].id,
            title=conversation.name or "",
            nodes=nodes,
            head_id=_key(conversation.curr_node),
            system_prompt=next((text for text in system if text.strip()), ""),
            created_at=next((node.created_at for node in nodes if node.created_at), None),
            updated_at=moment(conversation.last_modified),
        )
    )


def _node(message: _Message, number: int) -> Node:
    key, parent = _key(message.id) or f"#{number}", _key(message.parent)
    if message.role == "system" or message.type == "root":
        return Node(key, parent, "assistant")
    return Node(
        key,
        parent,
        "user" if message.role == "user" else "assistant",
        text=_text(message),
        created_at=moment(message.timestamp),
        model=text_of(message.model),
        reasoning=text_of(message.reasoning_content) or text_of(message.thinking),
    )


def _text(message: _Message) -> str:
    content = text_of(message.content)
    parts = [fenced(content) if message.role == "tool" and content.strip() else content]
    parts += [_attached(extra) for extra in message.extra or ()]
    parts += _tool_names(message.tool_calls)
    return "\n\n".join(part for part in parts if part.strip())


def _attached(extra: _Extra) -> str:
    """A pasted or attached text, whole; a word for anything else."""
    name = file_names(
        [{"type": "image" if "image" in text_of(extra.type).lower() else "", "name": extra.name}]
    )
    content = text_of(extra.content)
    return f"{name[0]}\n{fenced(content)}" if content.strip() else name[0]


def _tool_names(calls: Any) -> list[str]:
    """What was called. Calls are a list, or that list as JSON."""
    if isinstance(calls, str) and calls.strip():
        try:
            calls = msgspec.json.decode(calls)
        except (msgspec.MsgspecError, RecursionError):
            return ["[tool]"]
    listed = calls if isinstance(calls, list) else []
    functions = [call.get("function") for call in listed if isinstance(call, dict)]
    return [f"[tool: {text_of(f.get('name'))}]" for f in functions if isinstance(f, dict)]


def _key(value: Any) -> str | None:
    """An id as text: older pages counted, and had -1 above the first message."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and value >= 0 else None
