"""What `web` refuses by itself, and how every package's errors become frames."""

from __future__ import annotations

from inference.errors import EngineBusy, EngineStopped, InvalidParams, PromptTooLong, TemplateFailed
from storage.errors import Conflict, NotAllowed, NotFound, StorageError
from web.commands import BadFrame
from web.protocol import Error, ErrorCode


class StartFailed(Exception):
    """The server cannot start; the message says why."""


class Refused(Exception):
    """A command that cannot be carried out now; nothing of it was done."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code: ErrorCode = code
        super().__init__(message)


KNOWN_ERRORS = (
    BadFrame,
    Conflict,
    EngineBusy,
    EngineStopped,
    InvalidParams,
    NotAllowed,
    NotFound,
    PromptTooLong,
    Refused,
    StorageError,
    TemplateFailed,
)


def error_frame(error: Exception, ref: str | None) -> Error:
    """The frame that tells a client of a known error."""
    match error:
        case PromptTooLong():
            return Error("too_long", str(error), ref, error.needed, error.limit)
        case BadFrame():
            return Error("bad_frame", str(error), error.ref)
        case Refused():
            return Error(error.code, str(error), ref)
        case EngineBusy():
            return Error("busy", str(error), ref, limit=error.limit, waiting=error.waiting)
        case NotFound():
            return Error("not_found", str(error), ref)
        case NotAllowed():
            return Error("not_allowed", str(error), ref)
        case Conflict():
            return Error("conflict", str(error), ref)
        case EngineStopped():
            return Error("model_failed", str(error), ref)
        case InvalidParams():
            return Error("bad_params", str(error), ref)
        case TemplateFailed():
            return Error("model_failed", str(error), ref)
        case _:
            return Error("storage", str(error), ref)
