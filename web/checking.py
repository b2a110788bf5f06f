"""What `ondol check` looks at, says and mends: the database, and the folders beside it. Blocks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from inference.ownership import NOBODY, conversation_of
from inference.prefix_store import PrefixStore, unowned_files
from storage.backup import Contents, unfinished_files
from storage.checking import Checked, Fault, check
from storage.database import Database
from storage.errors import StorageError
from storage.files import BACKUPS_NAME, FILE_NAME, is_in_use
from storage.migrations import REVISIONS
from storage.reindexing import rebuild_index
from storage.restore import without_server
from storage.sqlite import load_library
from web.counting import contents_in_words, counted
from web.settings import Settings

SHOWN = 3

LABELS = {
    Fault.INDEX: "faults inside the search index",
    Fault.REFERENCE: "rows that refer to a missing one",
    Fault.PARENT_MISSING: "messages whose parent is missing",
    Fault.PARENT_ELSEWHERE: "messages whose parent is in another conversation",
    Fault.HEAD: "conversations whose head is no message of theirs",
    Fault.CUT: "conversations whose cut is no message of theirs",
    Fault.ENTRY_WITHOUT_TEXT: "entries of the search index without a text",
    Fault.TEXT_WITHOUT_ENTRY: "texts that are not in the search index",
    Fault.SCORES: "sets of probabilities without a message",
    Fault.PERSON: "conversations and devices of people who are not there",
    Fault.UNFINISHED: "unfinished replies, which the next start marks as interrupted",
}
OF_INDEX = (Fault.INDEX, Fault.ENTRY_WITHOUT_TEXT, Fault.TEXT_WITHOUT_ENTRY)


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. `cached` and `left` are files that nobody needs: of the prefix cache, and of imports
    and copies that were cut short. While a server runs, nobody can tell.
    """

    database: Checked
    cached: tuple[Path, ...]
    left: tuple[Path, ...]
    server_runs: bool

    def found(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Everything that was looked at, and what was found there."""
        for fault, label in LABELS.items():
            if fault in self.database.ids and not (self.server_runs and fault is Fault.UNFINISHED):
                yield label, self.database.ids[fault]
        if not self.server_runs:
            yield "files in the prefix cache of conversations that are gone", _names(self.cached)
            yield "files left by an import or a copy that was cut short", _names(self.left)

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.database.damage and not any(things for _, things in self.found())

    @property
    def is_index_wrong(self) -> bool:
        """Whether making the search index anew mends something."""
        return any(self.database.ids.get(fault) for fault in OF_INDEX)


def run_check(settings: Settings, *, repair: bool) -> bool:
    """Prints a report, and with `repair` what was mended and a second one. Whether nothing is wrong any more.

    Raises `StorageError`; with `repair` also where a server runs.
    """
    if not (settings.data_dir / FILE_NAME).is_file():
        raise _nothing(settings)
    if not repair:
        report = look(settings)
        _print(report)
        if report.is_index_wrong or report.cached or report.left:
            print("`ondol check --repair` makes the search index anew and deletes files that nobody needs.")
        return report.is_good
    with without_server(settings.data_dir):
        report = look(settings, server_runs=False)
        _print(report)
        if report.database.damage or not _repair(settings, report):
            return report.is_good
        report = look(settings, server_runs=False)
        _print(report)
        return report.is_good


def look(settings: Settings, *, server_runs: bool | None = None) -> Report:
    """Looks through a data folder, and changes nothing. None finds out whether a server runs."""
    path = settings.data_dir / FILE_NAME
    runs = is_in_use(settings.data_dir) if server_runs is None else server_runs
    database = check(path)
    if not database.damage and not database.revision:
        raise _nothing(settings)
    if runs or database.damage:
        return Report(database, (), (), runs)
    cached = unowned_files(settings.prefix_cache_dir, database.conversation_ids)
    return Report(database, tuple(cached), tuple(_left(settings)), runs)


def _nothing(settings: Settings) -> StorageError:
    return StorageError(f"There are no conversations in {settings.data_dir}.")


def _left(settings: Settings) -> Iterator[Path]:
    if settings.imports_dir.is_dir():
        yield from sorted(settings.imports_dir.iterdir())
    for folder in (settings.data_dir, settings.data_dir / BACKUPS_NAME):
        yield from unfinished_files(folder)


def _repair(settings: Settings, report: Report) -> bool:
    """Mends what can be mended without a loss, and says what it did. Whether there was anything."""
    done = []
    if report.is_index_wrong and report.database.is_current:
        with closing(Database(report.database.path, load_library())) as database:
            texts = counted(rebuild_index(database), "text")
        done.append(f"made the search index anew from {texts}")
    try:
        if report.cached:
            _forget_gone(settings.prefix_cache_dir, report.database.conversation_ids)
            done.append(f"deleted {counted(len(report.cached), 'file')} of the prefix cache")
        for file in report.left:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{error.filename} cannot be deleted ({error.strerror}).") from error
    if report.left:
        done.append(f"deleted {counted(len(report.left), 'left file')}")
    print(f"Repaired: {', '.join(done)}." if done else "There is nothing here that can be repaired.")
    return bool(done)


def _forget_gone(folder: Path, conversation_ids: Iterable[str]) -> None:
    """Opening a store deletes what its index does not name."""
    store = PrefixStore(folder, sys.maxsize)
    store.open()
    stored = {conversation_of(owner) for owner in store.owners() - {NOBODY}}
    for conversation_id in stored.difference(conversation_ids):
        store.forget(conversation_id, {})


def _print(report: Report) -> None:
    database = report.database
    if database.damage:
        print(f"WRONG  {database.damage}")
        print("Nothing else was looked at. `ondol restore FILE` puts a backup in its place.")
        for backup in sorted((database.path.parent / BACKUPS_NAME).glob("*.sqlite3")):
            print(f"       {backup}")
        return
    contents = Contents(database.revision, len(database.conversation_ids), database.messages, database.nbytes)
    print(f"{database.path}: {contents_in_words(contents)}")
    print("ok     damage in the file: none")
    for label, things in report.found():
        print(f"{'WRONG' if things else 'ok':5}  {label}: {_in_words(things)}")
    if not database.is_current:
        print(f"       The next start brings the schema to {REVISIONS[-1]}; the rest can be looked at then.")
    if report.server_runs:
        print("       A server runs: unfinished replies, the prefix cache and left files were not looked at.")


def _names(files: Iterable[Path]) -> tuple[str, ...]:
    return tuple(file.name for file in files)


def _in_words(things: tuple[str, ...]) -> str:
    if not things:
        return "none"
    shown = ", ".join("".join(c if c.isprintable() else "?" for c in thing) for thing in things[:SHOWN])
    return f"{len(things):,} ({shown}{', …' if len(things) > SHOWN else ''})"
