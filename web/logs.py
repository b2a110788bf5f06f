"""How records are written: without what people wrote, which exceptions may quote. Any thread."""

from __future__ import annotations

import copy
import logging
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import TypeAlias

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
QUOTING = (ValueError, LookupError)
"""Their messages quote the value that was wrong, which may be somebody's text."""

Raised: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class DiscreetFormatter(logging.Formatter):
    """Tracebacks without the messages of exceptions that quote values."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)
        record.exc_text = None  # another formatter's
        return super().format(record)

    def formatException(self, ei: Raised) -> str:
        return "".join(_told(ei[1], set())).rstrip() if ei[1] is not None else ""


def _told(error: BaseException, told: set[int]) -> Iterator[str]:
    told.add(id(error))
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None and id(earlier) not in told:
        yield from _told(earlier, told)
        yield "which led to\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__name__}" + ("\n" if isinstance(error, QUOTING) else f": {error}\n")


def log_discreetly() -> None:
    """Have warnings and errors written to standard error so."""
    handler = logging.StreamHandler()
    handler.setFormatter(DiscreetFormatter(FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
