"""`ondol backup`, `ondol restore` and `ondol check`: what keeps conversations from being lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from web.command_line import DataDir, one_sentence
from web.counting import contents_in_words, counted
from web.settings import Settings, default_data_dir

app = typer.Typer()


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Write everything that is kept to one file, and check it. A server may run meanwhile.

    The prefix cache is no part of it: it is computed anew from the conversations.
    """
    from storage.backup import back_up_folder

    with one_sentence():
        contents = back_up_folder(data_dir or default_data_dir(), file, replace=force)
    print(f"{file}: {contents_in_words(contents)}")
    if file.stat().st_mode & 0o077:
        typer.echo("ondol: There are no permissions on that file system: others may read the file.", err=True)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `ondol backup` wrote.")],
    data_dir: DataDir = None,
) -> None:
    """Put a backup in the place of what is kept, which stays in the folder `backups`. No server may run."""
    from storage.migrations import REVISIONS
    from storage.restore import restore

    with one_sentence():
        restored = restore(file, data_dir or default_data_dir())
    print(f"Restored: {contents_in_words(restored.contents)}")
    if restored.contents.revision != REVISIONS[-1]:
        print(f"The next start brings it to schema {REVISIONS[-1]}.")
    if restored.kept is not None:
        print(f"What was there before is kept: {restored.kept}")
    if restored.devices:
        print(
            f"Let in again, also where they were disconnected since: {counted(restored.devices, 'device')}."
        )


@app.command()
def check(
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Make the search index anew, delete left files. No server may run."),
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Look through everything that is kept. Ends with 1 where something is wrong."""
    from web.checking import run_check

    with one_sentence():
        if not run_check(Settings(data_dir=data_dir or default_data_dir()), repair=repair):
            raise typer.Exit(1)
