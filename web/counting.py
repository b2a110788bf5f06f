"""Counts in the terminal's English."""

from __future__ import annotations

from storage.backup import Contents


def counted(n: int, one: str, many: str = "") -> str:
    """The number with its word, whose plural ends in s unless it is given."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def contents_in_words(contents: Contents) -> str:
    """What a database file holds."""
    return (
        f"{counted(contents.conversations, 'conversation')}, {counted(contents.messages, 'message')},"
        f" {contents.nbytes:,} bytes (schema {contents.revision})"
    )
