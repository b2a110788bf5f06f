"""What the templates are given: plain values and sanitized HTML. Made in `web`; `templates/` put them into
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from markupsafe import Markup

from inference.types import Prefill, Queued
from storage.records import Shared, Siblings
from web.protocol import ContextView, StatusFrame


@dataclass(frozen=True, slots=True)
class QuietLine:
    """The line under a finished reply: what it cost, and what was reused.

    `begun` of the tokens were there before the reply went on. `reuse_lost` says why cached tokens could not
    be used, where that happened, in English. `stop_s` is how long stopping took.
    """

    completion_tokens: int
    reasoning_tokens: int
    begun: int
    prompt_tokens: int
    cached_tokens: int
    ttft_s: float | None
    decode_tok_s: float | None
    stop_s: float | None
    reuse_lost: str | None
    model: str


@dataclass(frozen=True, slots=True)
class ReasoningView:
    """What a model thought before a reply, as plain text, and for how long, where that was measured.

    `running` while it is still being thought.
    """

    text: str
    seconds: float | None
    running: bool = False


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message. `body` is sanitized HTML: paragraphs for a user, rendered markdown for a reply.

    status: `pending | running | done | interrupted`. `seq` is the last event that `body` contains, while
    running. finish_reason: `stop | length | abort | error` or None. `error` is an English sentence.
    `progress` is what happens while a reply has no text yet. `tail` is the unfinished end of a running reply.
    `can_continue` for a reply that was cut short. `author` is what its writer is called where others see it:
    empty for an owner without a name.
    """

    id: str
    role: str
    status: str
    body: Markup
    tail: Markup = Markup()
    seq: int = 0
    finish_reason: str | None = None
    error: str | None = None
    progress: Queued | Prefill | None = None
    line: QuietLine | None = None
    reasoning: ReasoningView | None = None
    siblings: Siblings | None = None
    can_continue: bool = False
    pinned: bool = False
    author: str | None = None


@dataclass(frozen=True, slots=True)
class SystemView:
    """The system text that the model reads before a conversation.

    `by_template` when nobody wrote it but the model's own chat template. `folded` when the model has no
    system role: the text then heads the first message. `name` is the preset's. `shared` when it is computed
    once for everybody.
    """

    text: str
    by_template: bool = False
    folded: bool = False
    name: str | None = None
    shared: bool = True


@dataclass(frozen=True, slots=True)
class EarlierView:
    """Messages that are not on the page yet: the address that brings some, and the id of the last of them.

    They belong before the message `next_id`.
    """

    url: str
    last_id: str
    next_id: str = ""


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """The messages of one branch, oldest first. The model reads from `cut_id` on (None: from the first).

    `unanswered` when it ends with a question. `earlier` stands for the messages before these, if any, and
    `between` for those of a gap among them.
    `origin` names the program that it was imported from.
    """

    messages: Sequence[MessageView]
    cut_id: str | None = None
    system: SystemView | None = None
    unanswered: bool = False
    earlier: EarlierView | None = None
    between: EarlierView | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class RightView:
    """What somebody may do with a conversation that is `owner`'s: empty for an owner without a name, None
    where it is their own. `shared` is what it lets others do.
    """

    right: Literal["none", "read", "write", "own"]
    owner: str | None
    shared: Shared | None


@dataclass(frozen=True, slots=True)
class ConversationItem:
    """One row of the conversation list. `place` tells the server where it stands.

    `shared` with the house to read or to write, or not. `owner` is what another is called whose it is: empty
    for an owner without a name, None where it is one's own.
    """

    id: str
    title: str
    place: str
    running: bool = False
    pinned: bool = False
    shared: Shared | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationGroup:
    """Rows under one heading, such as “Today”, which is still to be translated, or a month by its first day.

    None where they go on under the last heading of the page before.
    """

    label: str | date | None
    items: Sequence[ConversationItem]


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A piece of the conversation list, or of the `archived` ones. `more` is the address of the next piece.

    `first` of the pieces.
    """

    groups: Sequence[ConversationGroup]
    more: str | None = None
    archived: bool = False
    first: bool = True


@dataclass(frozen=True, slots=True)
class SharingView:
    """That the server is shared on the network: the likeliest address, if any, and who is looking."""

    addresses: Sequence[str]
    is_owner: bool
    encrypted: bool


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device in the owner's list. `is_own` is the browser that looks; `is_here` has a page open. Times
    are by the clock of whoever looks.
    """

    id: str
    name: str
    is_own: bool
    is_here: bool
    connected: datetime
    last_seen: datetime


@dataclass(frozen=True, slots=True)
class PersonView:
    """Somebody and their devices, the newest first. `name` is empty for an owner who gave none."""

    id: str
    name: str
    is_owner: bool
    devices: Sequence[DeviceView]
    has_password: bool = False


@dataclass(frozen=True, slots=True)
class AccountView:
    """What a person sees of themselves. A password has from `shortest` to `longest` characters."""

    name: str
    is_owner: bool
    has_password: bool
    devices: Sequence[DeviceView]
    shortest: int
    longest: int
    now: datetime


@dataclass(frozen=True, slots=True)
class DeviceListView:
    """Everybody, the owner first, with their devices: how many there are and may be, and when that was."""

    people: Sequence[PersonView]
    count: int
    most: int
    now: datetime


@dataclass(frozen=True, slots=True)
class InvitationView:
    """What the owner shows to a new device, which will be that person's; None: somebody's who is new, and is
    called `new_name` or like the device. `life_s` is for how long the code is good.

    `qr_svg` holds the first address and the code; empty where there is no address. `fingerprint` is that of
    the certificate; None where nothing is encrypted.
    """

    addresses: Sequence[str]
    code: str
    life_s: float
    qr_svg: Markup
    person_id: str | None
    new_name: str
    listed: DeviceListView
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class PresetView:
    """A system prompt to choose; `id` is empty for the server's own. `is_own`: who looks may change it."""

    id: str
    name: str
    text: str
    chosen: bool = False
    shared: bool = True
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class ChatPage:
    """The whole page. `conversation_id` and `title` are None for a chat that has not begun.

    `presets` are to choose from, and `opening` (JSON) is how a new chat begins where nothing is chosen.
    `sharing` is None on a server that only this machine reaches, `right` for a new chat. `at` is a
    message to show, which is `elsewhere` if its branch is not the one that is looked at.
    """

    conversation_id: str | None
    title: str | None
    transcript: TranscriptView
    conversations: ConversationPage
    status: StatusFrame
    context: ContextView | None
    examples: Sequence[str]
    version: str
    presets: Sequence[PresetView] = ()
    opening: str = "{}"
    sharing: SharingView | None = None
    right: RightView | None = None
    at: str | None = None
    elsewhere: bool = False
