"""What the owner reads in the terminal: how to connect devices, and the model's progress (standard error)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.text import Text

from inference.types import ModelPhase, ModelStatus
from web.lan import qr_text
from web.sharing import pairing_url

NOT_ENCRYPTED = "Not encrypted: everyone on this network can read along."


def print_invitation(
    owner_url: str,
    addresses: Sequence[str],
    code: str,
    encrypted: bool = False,
    console: Console | None = None,
) -> None:
    """How the owner and other devices connect to a server that is shared on the network."""
    console = console or Console(highlight=False)
    console.print(f"  Your own browser:  {owner_url}", markup=False, soft_wrap=True)
    for address in addresses or ["nowhere yet: this machine has no address on a private network"]:
        console.print(f"  Other devices:     {address}", markup=False, soft_wrap=True)
    life = "for one device, good for two minutes; your own page makes more"
    console.print(f"  Pairing code:      {spaced(code)}  ({life})", markup=False, soft_wrap=True)
    if not encrypted:
        console.print(f"  {NOT_ENCRYPTED}", markup=False, soft_wrap=True)
    if addresses:
        _print_qr(console, qr_text(pairing_url(addresses[0], code)))


def print_fingerprint(fingerprint: str, console: Console | None = None) -> None:
    """What a browser shows of the certificate, to compare."""
    console = console or Console(highlight=False)
    console.print(f"  Certificate:       SHA-256 {fingerprint}", markup=False, soft_wrap=True)


def spaced(code: str) -> str:
    """A code as people read it aloud."""
    return f"{code[:4]} {code[4:]}"


def _print_qr(console: Console, picture: str) -> None:
    try:
        picture.encode(console.encoding)
    except UnicodeEncodeError:
        return  # such a terminal has no characters to draw it with; the code is there to be typed
    for line in picture.splitlines():
        console.print(Text(line, style="#000000 on #ffffff"), soft_wrap=True)


class StatusPrinter:
    """Shows a model's way to being ready: a bar while bytes arrive, a line for every other step."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._last = ""

    def __call__(self, status: ModelStatus) -> None:
        if status.phase is ModelPhase.DOWNLOADING and status.total and self._console.is_terminal:
            self._advance(status)
            return
        self.close()
        if status.message != self._last and status.phase is not ModelPhase.DOWNLOADING:
            style = "red" if status.phase is ModelPhase.FAILED else "none"
            self._console.print(status.message, style=style, markup=False, soft_wrap=True)
        elif status.phase is ModelPhase.DOWNLOADING and not self._last:
            self._console.print(status.message, markup=False, soft_wrap=True)
        self._last = status.message

    def close(self) -> None:
        """Put the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _advance(self, status: ModelStatus) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.add_task(status.message, total=status.total)
            self._bar.start()
        task = self._bar.task_ids[0]
        self._bar.update(task, completed=status.done, total=status.total, description=status.message)
