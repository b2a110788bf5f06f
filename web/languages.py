"""Which languages there are, and which of them a person reads. Immutable once loaded; any thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from starlette.requests import HTTPConnection

from web.language import Language

CATALOGUES = Path(__file__).resolve().parent / "locale"
COOKIE = "ondol_language"
"""Set by the switch (`static/js/language.js`). All servers of a host share it: it is one person's choice."""


@dataclass(frozen=True, slots=True)
class Languages:
    """English, and every language that has a catalogue."""

    english: Language
    others: tuple[Language, ...]

    def __iter__(self) -> Iterator[Language]:
        yield from (*self.others, self.english)

    def of(self, connection: HTTPConnection) -> Language:
        """The one that was chosen, else the first known one that the browser asks for, else English."""
        known = {language.code: language for language in self}
        wanted = asked_for(connection.headers.get("accept-language", ""))
        wanted.insert(0, connection.cookies.get(COOKIE, ""))
        return next((known[code] for code in wanted if code in known), self.english)


def load_languages(folder: Path = CATALOGUES) -> Languages:
    """Read the catalogues; no compiled copy of them exists."""
    others = [
        Language.read(file.parent.parent.name, read_catalogue(file))
        for file in sorted(folder.glob("*/LC_MESSAGES/ondol.po"))
    ]
    return Languages(Language.read("en", Catalog(locale="en")), tuple(others))


def read_catalogue(file: Path) -> Catalog:
    """A catalogue as it stands in its file. Raises `babel.messages.pofile.PoFileError`."""
    with file.open("rb") as stream:
        return read_po(stream, locale=file.parent.parent.name, abort_invalid=True)


def asked_for(accept_language: str) -> list[str]:
    """The languages in an Accept-Language header (RFC 9110, 12.5.4), most wanted first, without regions."""
    ranges = []
    for part in accept_language.split(","):
        name, _, weight = part.partition(";")
        try:
            quality = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        if quality > 0:
            ranges.append((quality, name.strip().partition("-")[0].lower()))
    return [code for _, code in sorted(ranges, key=lambda entry: -entry[0])]
