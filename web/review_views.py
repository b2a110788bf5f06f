"""What the templates about one reply are given: its record, its tokens, and two branches side by side.

What was not kept is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.records import Json
from web.differences import Stretch
from web.settings_view import FieldView, StopView
from web.versions import Repetition


@dataclass(frozen=True, slots=True)
class PathView:
    """Seconds of each step, and what it handled. `begun` tokens were there before the reply went on; all else
    tells of what came then.
    """

    begun: int
    tokenize_s: float | None
    queue_s: float | None
    prefill_s: float | None
    prefilled: int
    prefill_tok_s: float | None
    ttft_s: float | None
    decode_s: float | None
    written: int
    decode_tok_s: float | None
    drafted: int
    accepted: int
    first_shown_s: float | None
    renders: int | None
    render_s: float | None
    total_s: float | None
    stop_s: float | None


@dataclass(frozen=True, slots=True)
class PartView:
    """One part of the context, in tokens, and where it begins and ends in per cent of the window."""

    name: str
    tokens: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class ReadView:
    """What the model read of its window. `warm` of the `prompt` were cached; both and `used` in per cent of
    the window too.
    """

    parts: Sequence[PartView]
    window: int
    prompt: int
    warm: int
    warm_share: float
    prompt_share: float
    used_share: float
    left_out: Sequence[tuple[str, str]]
    lost: str | None


@dataclass(frozen=True, slots=True)
class KVView:
    """What the keys and values of `tokens` cost. `shape`: 2 × layers × heads × head_dim × value_bytes are the
    `token_bytes`; None where layers differ.
    """

    shape: tuple[int, int, int, int] | None
    token_bytes: int
    tokens: int

    @property
    def nbytes(self) -> int:
        """All of them."""
        return self.token_bytes * self.tokens


@dataclass(frozen=True, slots=True)
class ParamsForm:
    """Sampling params to be changed."""

    fields: Sequence[FieldView]
    stop: StopView


@dataclass(frozen=True, slots=True)
class RecordView:
    """The whole sheet. `params` are pairs of a label, still to be translated, and a value. `obstacle` says
    why the reply cannot be written again, `doubt` why it may come out otherwise. `form` are the params again,
    to be changed.
    """

    id: str
    tokens: int
    finish_reason: str | None
    interrupted: bool
    path: PathView
    read: ReadView | None
    kv: KVView | None
    params: Sequence[tuple[str, str]]
    seed: int | None
    model: str | None
    ran_on: Json | None
    template: str | None
    system: str | None
    obstacle: str | None
    doubt: str | None
    repetition: Repetition | None
    compared_with: str | None
    form: ParamsForm | None


@dataclass(frozen=True, slots=True)
class SideView:
    """One branch from where it parts: the message that it begins with, and which version that is."""

    id: str
    position: int
    model: str | None


@dataclass(frozen=True, slots=True)
class CellView:
    """One message of a branch."""

    role: str
    stretches: Sequence[Stretch]
    cut_short: bool


@dataclass(frozen=True, slots=True)
class TokensView:
    """How two replies compare as tokens: how many both begin with, and how many each has."""

    same: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class CompareView:
    """The whole page. `versions` are the ids that can be chosen, oldest first. `settings` are the params that
    differ: a label, still to be translated, and both values. `question` is what both answer, if they do.
    """

    conversation_id: str
    title: str
    left: SideView
    right: SideView
    versions: Sequence[str]
    question: str | None
    rows: Sequence[tuple[CellView | None, CellView | None]]
    tokens: TokensView | None
    settings: Sequence[tuple[str, str, str]]
    longer: bool


@dataclass(frozen=True, slots=True)
class ReplyTokensPage:
    """The page of a reply's tokens. `pieces` whether the installed model can spell them; `obstacle` says, in
    English, why probabilities cannot be computed. `computed_by` tells what computed those that are kept.
    """

    id: str
    conversation_id: str
    title: str
    tokens: int
    window: int
    model: str | None
    loaded: str | None
    pieces: bool
    obstacle: str | None
    state: str
    computed_by: Json | None
