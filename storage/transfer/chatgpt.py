"""ChatGPT's export: `conversations.json`, or `conversations-000.json` and so on, an array of conversations.

Each has `mapping`, a tree of nodes by their ids, and `current_node`, the one that was looked at. A node has
`parent`, and a `message` or null. What a message holds depends on `content.content_type`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from storage.errors import ImportRefused
from storage.transfer.decoding import decode, fenced, file_names, text_of
from storage.transfer.schema import ExportedConversation
from storage.transfer.trees import Node, Source, converted, moment

ORIGIN = "ChatGPT"
HIDDEN = ("user_editable_context", "model_editable_context", "reasoning_recap", "app_pairing_content")
CODE = ("code", "execution_output")


class _Author(Struct):
    role: str | None = None


class _Content(Struct):
    content_type: str | None = None
    parts: list[Any] | None = None
    text: Any = None
    language: Any = None
    thoughts: list[Any] | None = None
    result: Any = None
    title: Any = None
    url: Any = None


class _Metadata(Struct):
    model_slug: Any = None
    is_visually_hidden_from_conversation: Any = None
    attachments: Any = None


class _Message(Struct):
    author: _Author | None = None
    content: _Content | None = None
    create_time: float | None = None
    metadata: _Metadata | None = None


class _Node(Struct):
    message: _Message | None = None
    parent: str | None = None


class _Conversation(Struct):
    mapping: dict[str, _Node]
    title: str | None = None
    create_time: float | None = None
    update_time: float | None = None
    current_node: str | None = None
    conversation_id: str | None = None
    id: str | None = None


def read(piece: bytes) -> ExportedConversation:
    """One conversation. Raises `ImportRefused`."""
    conversation = decode(piece, _Conversation)
    if not conversation.mapping:
        raise ImportRefused("It has no messages.")
    return converted(
        Source(
            origin=ORIGIN,
            id=conversation.conversation_id or conversation.id or next(iter(conversation.mapping)),
            title=conversation.title or "",
            nodes=[_node(node_id, node) for node_id, node in conversation.mapping.items()],
            head_id=conversation.current_node,
            created_at=moment(conversation.create_time),
            updated_at=moment(conversation.update_time),
        )
    )


def _node(node_id: str, node: _Node) -> Node:
    message = node.message
    content = message.content if message else None
    role = message.author.role if message and message.author else None
    if message is None or content is None or role in (None, "system") or _is_hidden(message, content):
        return Node(node_id, node.parent, "assistant")
    thoughts = content.content_type == "thoughts"
    return Node(
        node_id,
        node.parent,
        "user" if role == "user" else "assistant",
        text="" if thoughts else _text(content, message),
        created_at=moment(message.create_time),
        model=text_of(message.metadata.model_slug) if message.metadata else None,
        reasoning=_thoughts(content) if thoughts else "",
    )


def _is_hidden(message: _Message, content: _Content) -> bool:
    marked = message.metadata is not None and message.metadata.is_visually_hidden_from_conversation
    return bool(marked) or content.content_type in HIDDEN


def _text(content: _Content, message: _Message) -> str:
    if content.content_type in CODE:
        written = text_of(content.text)
        language = text_of(content.language)
        return fenced(written, "" if language == "unknown" else language) if written.strip() else ""
    if content.content_type == "tether_quote":
        source = " ".join(text_of(part) for part in (content.title, content.url) if text_of(part))
        return _quoted(f"{source}\n{text_of(content.text)}")
    parts = [_part(part) for part in content.parts or ()]
    parts += [text_of(content.text), text_of(content.result)]
    parts += file_names(message.metadata.attachments if message.metadata else None)
    return "\n\n".join(part for part in parts if part.strip())


def _part(part: Any) -> str:
    """A piece of a message. What is no text leaves a word in its place."""
    if not isinstance(part, Mapping):
        return text_of(part)
    kind = text_of(part.get("content_type"))
    if kind == "image_asset_pointer":
        return "[image]"
    if kind == "audio_transcription":
        return text_of(part.get("text"))
    if "audio" in kind or "video" in kind:
        return "[recording]"
    return text_of(part.get("text")) or f"[{kind or 'something that is no text'}]"


def _thoughts(content: _Content) -> str:
    return "\n\n".join(_thought_texts(content.thoughts or ()))


def _thought_texts(thoughts: Any) -> Iterator[str]:
    for thought in thoughts:
        if isinstance(thought, Mapping):
            texts = [text_of(thought.get("summary")), text_of(thought.get("content"))]
            yield "\n".join(text for text in texts if text.strip())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())
