"""What clients ask for: JSON objects, over the socket or, where they are too long for a frame, by POST.

`id` is made by the client, and commands are idempotent: a repeated one gets the same answer and does nothing
twice. An answer that belongs to one command repeats its id as `ref`. Nothing past here sees JSON.
"""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from web.opening import ChosenParams, Opening

MAX_FRAME_BYTES = 65_536
"""Of a frame on the socket."""

MAX_TEXT_BYTES = 1_048_576
"""Of a message's text, in UTF-8."""

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+\Z")]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_BYTES)]
Seq: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]


class Command(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """What every frame from a client has."""

    id: Id


class Send(Command, frozen=True, tag="send"):
    """A person's message. Without `conversation_id` it begins a new conversation.

    `parent_id` is the message it follows (the last one that the page shows); null for the first. `opening` is
    how a new conversation is to be; null for the person's defaults.
    """

    text: Text
    conversation_id: Id | None = None
    parent_id: Id | None = None
    opening: Opening | None = None


class Edit(Command, frozen=True, tag="edit"):
    """Another text beside a person's message, with a reply of its own. The message and what follows it stay
    as another branch.
    """

    conversation_id: Id
    message_id: Id
    text: Text


class Regenerate(Command, frozen=True, tag="regenerate"):
    """Another reply to the question that `message_id` answers, or is.

    With `repeat` it is to be the reply `message_id` once more: what was read then, its params and its seed.
    Otherwise `params` take the place of what was chosen for the chat, for this reply alone.
    """

    conversation_id: Id
    message_id: Id
    repeat: bool = False
    params: ChosenParams | None = None


class Continue(Command, frozen=True, tag="continue"):
    """Let a reply go on that was stopped, reached its limit or broke off. It keeps its id and its text."""

    conversation_id: Id
    message_id: Id


class Switch(Command, frozen=True, tag="switch"):
    """Look at the branch with that message, where it was last worked on; on every device."""

    conversation_id: Id
    message_id: Id


class DeleteBranch(Command, frozen=True, tag="delete_branch"):
    """Delete a message and all that follows it."""

    conversation_id: Id
    message_id: Id


class RestoreBranch(Command, frozen=True, tag="restore_branch"):
    """Bring back what `delete_branch` deleted, within a minute."""

    conversation_id: Id
    message_id: Id


class Stop(Command, frozen=True, tag="stop"):
    """End a reply; what is written of it stays."""

    message_id: Id


class Watch(Command, frozen=True, tag="watch"):
    """Follow a conversation from now on, instead of any other.

    `head_id` is the last message that the page shows, `running` whether it shows it as being written, and
    `after_seq` the last event of it that was seen. Where the page is behind in a way that events cannot mend,
    a `snapshot` comes; else the missing events do. One that was deleted, and may come back, is answered by
    `conversation_deleted`, and followed too.
    """

    conversation_id: Id
    head_id: Id | None = None
    after_seq: Seq = 0
    running: bool = False


class Count(Command, frozen=True, tag="count"):
    """Ask what the model would read if `text` were sent now. Answered by `counted`."""

    text: Annotated[str, Meta(max_length=MAX_TEXT_BYTES)]
    conversation_id: Id | None = None
    parent_id: Id | None = None
    opening: Opening | None = None


class RetryModel(Command, frozen=True, tag="retry_model"):
    """Try again to fetch and load the model after it failed."""


ClientFrame: TypeAlias = (
    Send
    | Edit
    | Regenerate
    | Continue
    | Switch
    | DeleteBranch
    | RestoreBranch
    | Stop
    | Watch
    | Count
    | RetryModel
)
Begin: TypeAlias = Send | Edit | Regenerate | Continue
"""What begins a reply."""

LongFrame: TypeAlias = Send | Edit | Count
"""What may be too long for a frame."""


Decoded = TypeVar("Decoded")


class BadFrame(Exception):
    """A client's frame is not one of ours. `ref` is its id, where one could be read."""

    def __init__(self, message: str, ref: str | None) -> None:
        super().__init__(message)
        self.ref = ref


class _Envelope(Struct):
    id: Id | None = None


ID_WITHIN = 1_024
"""So many characters of a frame that is no JSON are looked at for its id."""

_ID_FIRST = re.compile(r'\s*\{[^{}\[\]]*"id"\s*:\s*"([A-Za-z0-9_-]{1,64})"')
_decoder = msgspec.json.Decoder(ClientFrame)
_long_decoder = msgspec.json.Decoder(LongFrame)
_envelope = msgspec.json.Decoder(_Envelope)


def decode(frame: str | bytes) -> ClientFrame:
    """The typed command in a client's frame; `BadFrame` with one sentence otherwise."""
    return _decode(_decoder, frame)


def decode_long(body: bytes) -> LongFrame:
    """As `decode`, for what may come by POST."""
    return _decode(_long_decoder, body)


def _decode(decoder: msgspec.json.Decoder[Decoded], frame: str | bytes) -> Decoded:
    try:
        command = decoder.decode(frame)
        _check_text(command)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise BadFrame(f"That frame was not understood: {_reason(error)}", _reference(frame)) from None
    return command


def _check_text(command: object) -> None:
    if isinstance(command, Regenerate) and command.params is not None:
        _check_characters(*(command.params.stop or ()))
    if not isinstance(command, Send | Edit | Count):
        return
    _check_characters(command.text)
    if not isinstance(command, Edit) and command.opening is not None:
        _check_characters(command.opening.texts)
    size = len(command.text.encode())
    if size > MAX_TEXT_BYTES:
        raise msgspec.ValidationError(f"the text has {size:,} bytes, and {MAX_TEXT_BYTES:,} are possible")


def _check_characters(*texts: str) -> None:
    """JSON can spell a NUL, which ends a text in half of the tools that it may come to."""
    if any("\0" in text for text in texts):
        raise msgspec.ValidationError("a text holds the character NUL")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply."
    if isinstance(error, UnicodeError):
        return "its text is not valid Unicode."
    return f"{error}."


def _reference(frame: str | bytes) -> str | None:
    try:
        return _envelope.decode(frame).id
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        pass
    # What follows the id cannot be read; an id before anything nested can.
    start = frame[:ID_WITHIN] if isinstance(frame, str) else frame[:ID_WITHIN].decode(errors="replace")
    found = _ID_FIRST.match(start)
    return found[1] if found else None
