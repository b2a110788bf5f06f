"""What the templates are given of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from storage.excerpts import Piece


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that was found: its address, whether a person wrote it, and the piece of it to show."""

    url: str
    mine: bool
    pieces: Sequence[Piece]
    day: date


@dataclass(frozen=True, slots=True)
class FoundConversation:
    """A conversation in which something was found; its title alone, where there are no `messages`."""

    url: str
    title: Sequence[Piece]
    archived: bool
    day: date
    messages: Sequence[FoundMessage]


@dataclass(frozen=True, slots=True)
class FoundView:
    """Results, the newest first. `more` is the address of the next page; `problem` is why there are none."""

    conversations: Sequence[FoundConversation]
    more: str | None
    all_url: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The page of a search: what was asked, as it was written, and what was found; None without a query."""

    query: str
    model: str
    since: str
    until: str
    models: Sequence[str]
    found: FoundView | None
    problem: str | None
