"""Importing a file, conversation by conversation, and a process of its own for that.

Reading JSON holds the interpreter for long moments, and a hostile file may want memory without end. So the
server lets another process read and store: it tells on its standard output what becomes of each conversation.
Killed at any moment it leaves whole conversations only.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from storage.database import Database
from storage.errors import ImportRefused, StorageError
from storage.sqlite import load_library
from storage.transfer.importing import Imports, Outcome
from storage.transfer.limits import MIB
from storage.transfer.reading import Found, found
from web.import_checks import check
from web.logs import log_discreetly

logger = logging.getLogger(__name__)

MAX_MEMORY_BYTES = 1_024 * MIB
MAX_PAUSE_S = 0.05
NICE = 5


class Counted(Struct, frozen=True, tag="counted"):
    """So many conversations are in the file, or what stands in their place."""

    total: int


class Item(Struct, frozen=True, tag="item"):
    """What became of one of them. `why` is a sentence where it was refused; `conversation_id` its id here."""

    title: str
    outcome: Outcome
    why: str | None = None
    conversation_id: str | None = None


class Failed(Struct, frozen=True, tag="failed"):
    """The file is not taken, or no further; the sentence says why."""

    why: str


Event: TypeAlias = Counted | Item | Failed


def import_file(path: Path, database: Database, person: str) -> Iterator[Event]:
    """Import a person's file; ends with the last conversation or with `Failed`.

    Between two conversations it rests as long as it wrote, so that other writers come in.
    """
    try:
        yield Counted(sum(1 for _ in found(path)))
        imports = Imports(database, person)
        for each in found(path):
            started = time.perf_counter()
            yield _take(imports, each)
            time.sleep(min(MAX_PAUSE_S, time.perf_counter() - started))
    except ImportRefused as error:
        yield Failed(str(error))
    except StorageError as error:
        yield Failed(str(error))
    except MemoryError:
        yield Failed(f"A conversation in it needs more memory than {MAX_MEMORY_BYTES // MIB:,} MiB.")
    except OSError as error:
        yield Failed(f"The file cannot be read ({error.strerror}).")


def _take(imports: Imports, each: Found | ImportRefused) -> Item:
    title = ""
    try:
        if isinstance(each, ImportRefused):
            raise each
        conversation = each.read()
        title = conversation.title
        check(conversation)
        outcome, conversation_id = imports.add(conversation)
    except ImportRefused as error:
        return Item(title, Outcome.REFUSED, str(error))
    return Item(title, outcome, None, conversation_id)


def main(file: str, database_file: str, person: str) -> None:
    """Import into the database of a server that runs, which was looked at when that started."""
    log_discreetly()
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    server = os.getppid()
    database = Database(Path(database_file), load_library())
    try:
        for event in import_file(Path(file), database, person):
            sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
            sys.stdout.buffer.flush()
            if os.getppid() != server:
                return
    except Exception:
        logger.exception("the import broke off")
        sys.exit(1)
    finally:
        database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
