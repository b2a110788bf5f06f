"""What all commands share: the option that names the data folder, and how errors are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from inference.errors import InferenceError
from storage.errors import NotFound, StorageError
from web.errors import StartFailed

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar="ONDOL_DATA_DIR", help="Where conversations are kept."),
]


@contextmanager
def one_sentence() -> Iterator[None]:
    """What goes wrong on purpose is told in one sentence, with exit code 1."""
    try:
        yield
    except (InferenceError, NotFound, StorageError, StartFailed) as error:
        typer.echo(f"ondol: {error}", err=True)
        raise typer.Exit(1) from None
