"""Several lines of text as tokens, for the page `/tokens` and its CSV file. Blocks: for pool threads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from inference.errors import ModelUnusable
from inference.models.installed import InstalledTokenizer
from inference.text_pieces import TextPiece, TokenizerShelf
from web.language import Language


class Limits(NamedTuple):
    """How much is cut at a time, and by how many models."""

    characters: int
    lines: int
    compared: int


LIMITS = Limits(characters=10_000, lines=100, compared=4)
MAX_SHOWN = 5_000
"""Pieces on the page, of all lines and models together; the file has them all."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
SPACES = {" ": "·", "\t": "→", "\n": "↵"}
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class PieceGroup:
    """Pieces that end where a character does. `whole` is what several of them spell together, else empty."""

    pieces: Sequence[TextPiece]
    whole: str


@dataclass(frozen=True, slots=True)
class CutLine:
    """One line as one model's tokenizer cuts it. `hidden` pieces are not among the `groups`."""

    model: str
    tokens: int
    per_character: float
    groups: Sequence[PieceGroup]
    pieces: Sequence[TextPiece]
    hidden: int


@dataclass(frozen=True, slots=True)
class LineView:
    """A line that is not blank, and its number in the text from 1."""

    number: int
    text: str
    characters: int
    cuts: Sequence[CutLine]


@dataclass(frozen=True, slots=True)
class Total:
    """All lines in one model's tokens; `share` of the model that needs most, from 0 to 1."""

    model: str
    tokens: int
    per_character: float
    share: float


@dataclass(frozen=True, slots=True)
class TokenTable:
    """`problem` is an English sentence where the text was not cut, or a model could not be read."""

    lines: Sequence[LineView] = ()
    totals: Sequence[Total] = ()
    characters: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TokensPage:
    """The page: what was written, the models to choose from with those that are chosen, and the result."""

    text: str
    models: Sequence[tuple[str, bool]]
    table: TokenTable


def refusal(text: str) -> str | None:
    """Why a text is not cut, with the numbers; None where it is."""
    characters, lines = len(text), text.count("\n") + 1
    if characters > LIMITS.characters:
        return f"The text has {characters:,} characters; up to {LIMITS.characters:,} are cut at a time."
    if lines > LIMITS.lines:
        return f"The text has {lines:,} lines; up to {LIMITS.lines:,} are cut at a time."
    return None


def token_table(text: str, models: Sequence[InstalledTokenizer], shelf: TokenizerShelf) -> TokenTable:
    """Cut every line with every model."""
    problem = refusal(text)
    if len(models) > LIMITS.compared:
        problem = f"Up to {LIMITS.compared} models are compared at a time, not {len(models)}."
    if problem is not None:
        return TokenTable(problem=problem)
    written = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    try:
        tokenizers = [(model.name, shelf.take(model.file)) for model in models]
    except ModelUnusable as error:
        return TokenTable(problem=str(error))
    budget, lines = MAX_SHOWN, []
    for number, line in written:
        cuts = []
        for name, tokenizer in tokenizers:
            cut = _cut(name, line, tokenizer.pieces(line), budget)
            budget -= cut.tokens - cut.hidden
            cuts.append(cut)
        lines.append(LineView(number, line, len(line), cuts))
    characters = sum(line.characters for line in lines)
    return TokenTable(lines, _totals(lines, [name for name, _ in tokenizers], characters), characters)


def _cut(model: str, line: str, pieces: Sequence[TextPiece], budget: int) -> CutLine:
    groups, shown = [], 0
    for group in piece_groups(pieces):
        if shown + len(group.pieces) > budget:
            break
        groups.append(group)
        shown += len(group.pieces)
    return CutLine(model, len(pieces), len(pieces) / len(line), groups, pieces, len(pieces) - shown)


def piece_groups(pieces: Sequence[TextPiece]) -> Iterator[PieceGroup]:
    """The pieces, those of one character together."""
    run: list[TextPiece] = []
    raw = b""
    for piece in pieces:
        run.append(piece)
        raw += piece.raw
        try:
            spelled = raw.decode()
        except UnicodeDecodeError:
            continue
        yield PieceGroup(run, spelled.strip() if len(run) > 1 else "")
        run, raw = [], b""
    if run:
        yield PieceGroup(run, "")


def _totals(lines: Sequence[LineView], names: Sequence[str], characters: int) -> list[Total]:
    tokens = [sum(line.cuts[place].tokens for line in lines) for place in range(len(names))]
    most = max(tokens, default=0)
    return [
        Total(name, count, count / characters if characters else 0.0, count / most if most else 0.0)
        for name, count in zip(names, tokens, strict=True)
    ]


def as_csv(table: TokenTable, language: Language) -> str:
    """A file for spreadsheets: they know UTF-8 by its mark, and must take no text for a formula."""
    file = io.StringIO()
    writer = csv.writer(file)
    t = language.t
    writer.writerow(
        [
            t("line"),
            t("text"),
            t("characters"),
            t("model"),
            t("tokens"),
            t("tokens per character"),
            t("pieces"),
        ]
    )
    for line in table.lines:
        for cut in line.cuts:
            spelled = json.dumps([in_marks(piece) for piece in cut.pieces], ensure_ascii=False)
            cells = (line.text, line.characters, cut.model, cut.tokens, round(cut.per_character, 3), spelled)
            writer.writerow([line.number, *(harmless(c) if isinstance(c, str) else c for c in cells)])
    return BYTE_ORDER_MARK + file.getvalue()


def harmless(cell: str) -> str:
    """A cell that no spreadsheet computes: what could begin a formula gets an apostrophe before it."""
    return f"'{cell}" if cell.lstrip(" \ufeff").startswith(FORMULA) else cell


def spaces_shown(text: str) -> Markup:
    """A piece's text with its spaces in sight: they belong to the token."""
    return Markup("").join(
        Markup('<span class="space">{}</span>').format(SPACES[character])
        if character in SPACES
        else character
        for character in text
    )


def in_marks(piece: TextPiece) -> str:
    """A piece as text, bytes of split characters as <0xEB>."""
    return "".join(
        part if isinstance(part, str) else "".join(f"<0x{byte:02X}>" for byte in part) for part in piece.parts
    )
