"""`ondol export` and `ondol import`: the same as on the page, beside a server or without one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import BinaryIO, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from storage.database import Database
from storage.errors import StorageError
from storage.files import FILE_NAME
from storage.people import People
from storage.records import OWNER
from storage.transfer.exporting import Exports
from storage.transfer.importing import Outcome
from storage.transfer.schema import ExportedConversation, document
from web.downloads import zipped
from web.file_names import file_name, name_for_all
from web.import_process import Counted, Failed, Item, import_file
from web.languages import load_languages
from web.transfer import markdown_bytes, markdown_files

STANDARD_OUTPUT = Path("-")


def run_export(
    data_dir: Path,
    form: Literal["json", "markdown"],
    conversation_id: str | None,
    person: str | None,
    output: Path | None,
) -> None:
    """Write one conversation, or all of a person's, or of everybody's. Without a name the file gets one, in
    the current folder.

    Raises `NotFound` and `StorageError`.
    """
    if not (data_dir / FILE_NAME).is_file():
        raise StorageError(f"There are no conversations in {data_dir}.")
    with closing(Database.open(data_dir)) as database:
        exports = Exports(database)
        if conversation_id is None:
            name, pieces = _all(exports, form, People(database).called(person).id if person else None)
        else:
            name, pieces = _one(exports.conversation(conversation_id), form)
        path = output or Path(name)
        with _written(path) as file:
            for piece in pieces:
                file.write(piece)
    if path != STANDARD_OUTPUT:
        print(path)


def run_import(data_dir: Path, files: Sequence[Path], person: str | None = None) -> bool:
    """Import files one after another, for a person or the owner; prints a line for each conversation. Whether
    none was refused.

    Raises `NotFound` and `StorageError` before anything is read.
    """
    console, is_whole = Console(stderr=True, highlight=False), True
    with closing(Database.open(data_dir)) as database:
        theirs = People(database).called(person).id if person else OWNER
        for file in files:
            with _bar(console) as progress:
                task = progress.add_task(file.name, total=None)
                for event in import_file(file, database, theirs):
                    match event:
                        case Counted():
                            progress.update(task, total=event.total)
                        case Item():
                            progress.advance(task)
                            print(_line(event), flush=True)
                            is_whole &= event.outcome is not Outcome.REFUSED
                        case Failed():
                            console.print(f"ondol: {file}: {event.why}", markup=False, soft_wrap=True)
                            is_whole = False
    return is_whole


def _all(exports: Exports, form: str, person: str | None) -> tuple[str, Iterator[bytes]]:
    counted = _counted(exports, person)
    if form == "markdown":
        files = markdown_files(counted, load_languages().english)
        return name_for_all(date.today(), ".zip"), zipped(files)
    return name_for_all(date.today(), ".json"), document(counted)


def _one(conversation: ExportedConversation, form: str) -> tuple[str, Iterator[bytes]]:
    if form == "markdown":
        return file_name(conversation, ".md"), markdown_bytes(conversation, load_languages().english)
    return file_name(conversation, ".json"), document([conversation])


def _counted(exports: Exports, person: str | None) -> Iterator[ExportedConversation]:
    """Every conversation of theirs, with a bar while there is somebody to see it."""
    with _bar(Console(stderr=True, highlight=False)) as progress:
        task = progress.add_task("exporting", total=exports.count(person))
        for conversation in exports.everything(person):
            yield conversation
            progress.advance(task)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _line(item: Item) -> str:
    title = " ".join(item.title.split()) or "(without a title)"
    shown = "".join(c if c.isprintable() else "?" for c in title)
    return f"{item.outcome.value:13} {shown}" + (f": {item.why}" if item.why else "")


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """The file appears whole, or not at all. Raises `StorageError`."""
    if path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        return
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with unfinished.open("wb") as file:
            yield file
        os.replace(unfinished, path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({error.strerror}).") from None
    finally:
        unfinished.unlink(missing_ok=True)
