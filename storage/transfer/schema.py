"""Ondol's export format, version 1: these structs are what is written, what is read, and the JSON Schema.

`docs/export-format.md` tells it to people. A field that has its default is left out, so that what is written
does not change when a field is added. Immutable values; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from storage.errors import ImportRefused
from storage.records import Role
from storage.table import ID_LENGTH
from storage.tables import TITLE_LENGTH

FORMAT = "ondol"
VERSION = 1
FOOT = b"\n]}\n"

RowId: TypeAlias = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{1,{ID_LENGTH}}}(?!\n)$")]
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
TokenId: TypeAlias = Annotated[int, Meta(ge=0, lt=2**31)]


class _Format(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What all structs of the format have in common."""


class ExportedMessage(_Format, frozen=True, kw_only=True):
    """One message. Optional fields belong to replies; `storage.records.MessageRecord` says what they hold.

    A reply that was being written when it was exported is `interrupted`, with the text that it had.
    """

    id: RowId
    parent_id: RowId | None = None
    role: Role
    text: str
    status: Literal["done", "interrupted"] = "done"
    created_at: Moment
    finished_at: Moment | None = None
    model: str | None = None
    finish_reason: str | None = None
    error: str | None = None
    reasoning: str | None = None
    pinned: bool = False
    params: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    timings: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    token_ids: tuple[TokenId, ...] | None = None


class ExportedConversation(_Format, frozen=True, kw_only=True):
    """One conversation with its whole tree: every message stands after the one that it follows.

    `origin` names the program that it was first imported from. `params` and `thinking` are what was chosen
    for the conversation in place of the model's own values.
    """

    id: RowId
    title: Annotated[str, Meta(max_length=TITLE_LENGTH)]
    origin: Annotated[str, Meta(max_length=40)] | None = None
    created_at: Moment
    updated_at: Moment
    pinned: bool = False
    archived: bool = False
    system_prompt: str = ""
    params: dict[str, Any] | None = None
    thinking: bool | None = None
    head_id: RowId | None = None
    cut_id: RowId | None = None
    messages: tuple[ExportedMessage, ...] = ()


class ExportedDocument(_Format, frozen=True, kw_only=True):
    """A whole file."""

    format: Literal["ondol"]
    version: Literal[1]
    conversations: Sequence[ExportedConversation]


def head(version: int = VERSION) -> bytes:
    """What a file begins with; conversations follow, one a line, and then `FOOT`."""
    return b'{"format":"%b","version":%d,"conversations":[\n' % (FORMAT.encode(), version)


def another_version(version: object) -> str:
    """Why a file is not read."""
    return f"A newer Ondol wrote this file: its format is version {version}, and {VERSION} is known here."


def document(conversations: Iterable[ExportedConversation]) -> Iterator[bytes]:
    """A file in pieces, one for each conversation: no more than one of them is in memory."""
    yield head()
    for number, conversation in enumerate(conversations):
        yield (b",\n" if number else b"") + msgspec.json.encode(conversation)
    yield FOOT


def read_conversation(piece: bytes) -> ExportedConversation:
    """One conversation of a file. Raises `ImportRefused` where it is none, or its tree is not sound."""
    try:
        conversation = msgspec.json.decode(piece, type=ExportedConversation)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ImportRefused(f"It is not as Ondol writes it: {error}.") from None
    check_tree(conversation)
    return conversation


def check_tree(conversation: ExportedConversation) -> None:
    """Raises `ImportRefused` where messages do not form a tree, or the conversation names one it lacks."""
    known: set[str] = set()
    for message in conversation.messages:
        if message.id in known:
            raise ImportRefused(f"The message {message.id} is in it twice.")
        if message.parent_id is not None and message.parent_id not in known:
            raise ImportRefused(f"The message {message.id} follows one that does not stand before it.")
        known.add(message.id)
    for named in (conversation.head_id, conversation.cut_id):
        if named is not None and named not in known:
            raise ImportRefused(f"It names a message {named} that is not in it.")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a file."""
    return msgspec.json.schema(ExportedDocument)


def chosen_branch(conversation: ExportedConversation) -> list[ExportedMessage]:
    """The messages from the first to the head, oldest first: what its page shows."""
    by_id = {message.id: message for message in conversation.messages}
    branch: list[ExportedMessage] = []
    above = conversation.head_id
    while above is not None:
        branch.append(by_id[above])
        above = by_id[above].parent_id
    return branch[::-1]
