"""Looking for what should not be in a database: rows that lead nowhere, and an index that misses texts.

Reads only, over one unchanging view, so a server may run meanwhile. Blocks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from storage.errors import DamagedDatabase
from storage.files import SEARCH_INDEX, reading_uri, revision_of
from storage.folding import fold
from storage.grams import grams
from storage.migrations import REVISIONS
from storage.sqlite import explain, load_library


class Fault(Enum):
    """What can be wrong in a sound file."""

    INDEX = auto()
    REFERENCE = auto()
    PARENT_MISSING = auto()
    PARENT_ELSEWHERE = auto()
    HEAD = auto()
    CUT = auto()
    ENTRY_WITHOUT_TEXT = auto()
    TEXT_WITHOUT_ENTRY = auto()
    SCORES = auto()
    PERSON = auto()
    UNFINISHED = auto()


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found. `ids` are those of messages, conversations or devices; for `REFERENCE` they are names
    of tables, and for `INDEX` what SQLite says of the full-text index.

    `damage` is a sentence about a file that is not sound; nothing else was looked at then. In a file of an
    older schema only references were. `conversation_ids` are all that are there.
    """

    path: Path
    damage: str = ""
    revision: str = ""
    nbytes: int = 0
    conversation_ids: frozenset[str] = frozenset()
    messages: int = 0
    ids: Mapping[Fault, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_current(self) -> bool:
        """Whether everything could be looked at."""
        return self.revision == REVISIONS[-1]


_GONE = """WITH RECURSIVE gone(id) AS (
    SELECT id FROM messages WHERE deleted_at IS NOT NULL
    UNION SELECT messages.id FROM messages JOIN gone ON messages.parent_id = gone.id
)
"""
"""What was deleted and could be brought back: it stands in no index meanwhile."""

_QUERIES = {
    Fault.PARENT_MISSING: """SELECT id FROM messages WHERE parent_id IS NOT NULL
        AND parent_id NOT IN (SELECT id FROM messages)""",
    Fault.PARENT_ELSEWHERE: """SELECT messages.id FROM messages JOIN messages AS parents
        ON parents.id = messages.parent_id WHERE parents.conversation_id <> messages.conversation_id""",
    Fault.HEAD: """SELECT id FROM conversations WHERE head_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM messages WHERE messages.id = head_id AND conversation_id = conversations.id)""",
    Fault.CUT: """SELECT id FROM conversations WHERE cut_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM messages WHERE messages.id = cut_id AND conversation_id = conversations.id)""",
    Fault.ENTRY_WITHOUT_TEXT: f"""{_GONE}
        SELECT coalesce(message_id, conversation_id) FROM search_entries
        WHERE number NOT IN (SELECT id FROM search_index_docsize)
            OR message_id IN (SELECT id FROM gone)
            OR (message_id IS NOT NULL AND message_id NOT IN (SELECT id FROM messages))
            OR (conversation_id IS NOT NULL AND conversation_id NOT IN (SELECT id FROM conversations))
        UNION ALL SELECT CAST(id AS TEXT) FROM search_index_docsize
        WHERE id NOT IN (SELECT number FROM search_entries)""",
    Fault.SCORES: """SELECT message_id FROM token_scores
        WHERE message_id NOT IN (SELECT id FROM messages)""",
    Fault.PERSON: """SELECT id FROM conversations WHERE person_id NOT IN (SELECT id FROM people)
        UNION ALL SELECT id FROM devices WHERE person_id NOT IN (SELECT id FROM people)""",
    Fault.UNFINISHED: "SELECT id FROM messages WHERE status IN ('pending', 'running')",
}

_WITHOUT_ENTRY = f"""{_GONE}
SELECT id, NULL FROM conversations
WHERE id NOT IN (SELECT conversation_id FROM search_entries WHERE conversation_id IS NOT NULL)
UNION ALL
SELECT id, text FROM messages
WHERE status IN ('done', 'interrupted') AND id NOT IN (SELECT id FROM gone)
    AND id NOT IN (SELECT message_id FROM search_entries WHERE message_id IS NOT NULL)
"""
"""A title is always in the index, a message unless it has no terms."""


def check(path: Path) -> Checked:
    """Looks through a database file. Raises `SchemaTooNew`, and `StorageError` where it cannot be read."""
    library = load_library()
    try:
        revision = revision_of(path, library, check=None)
        if revision is None:
            return Checked(path)
        with closing(library.connect(reading_uri(path), uri=True)) as connection:
            connection.execute("BEGIN")
            return _looked_through(path, revision, connection)
    except DamagedDatabase as error:
        return Checked(path, damage=str(error))
    except library.Error as error:
        problem = explain(error, path)
        if isinstance(problem, DamagedDatabase):
            return Checked(path, damage=str(problem))
        raise problem from error


def _looked_through(path: Path, revision: str, connection: sqlite3.Connection) -> Checked:
    said = [line for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
    of_index = [line for line in said if SEARCH_INDEX in line]
    if len(said) > len(of_index):
        return Checked(
            path, damage=f"{path} is damaged ({next(line for line in said if SEARCH_INDEX not in line)})."
        )
    faults = {
        Fault.INDEX: tuple(of_index),
        Fault.REFERENCE: tuple(row[0] for row in connection.execute("PRAGMA foreign_key_check")),
    }
    if revision == REVISIONS[-1]:
        for fault, query in _QUERIES.items():
            faults[fault] = tuple(found for (found,) in connection.execute(query))
        faults[Fault.TEXT_WITHOUT_ENTRY] = tuple(_without_entry(connection))
    return Checked(
        path,
        revision=revision,
        nbytes=path.stat().st_size,
        conversation_ids=frozenset(found for (found,) in connection.execute("SELECT id FROM conversations")),
        messages=connection.execute("SELECT count(*) FROM messages").fetchone()[0],
        ids=faults,
    )


def _without_entry(connection: sqlite3.Connection) -> Iterator[str]:
    for found, text in connection.execute(_WITHOUT_ENTRY):
        if text is None or grams(fold(text)):
            yield found
