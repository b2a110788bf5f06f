"""From stored records and running replies to HTML in one language. Rendering blocks: call it from a pool
thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from storage.records import ConversationRecord, MessageRecord, Siblings, Status
from web.device_names import device_words
from web.found_view import FoundView, SearchPage
from web.generation import RunningView
from web.glossary import GroupView
from web.language import Language
from web.letters import Letter
from web.markdown import render_in_parts, render_plain
from web.review_views import CompareView, RecordView, ReplyTokensPage
from web.settings_view import SettingsView
from web.status_view import StatusView
from web.token_table import LIMITS, TokensPage, TokenTable, spaces_shown
from web.views import (
    ChatPage,
    ConversationPage,
    EarlierView,
    InvitationView,
    MessageView,
    PresetView,
    QuietLine,
    ReasoningView,
    SystemView,
    TranscriptView,
)
from web.wording import duration_words, label_in_words, range_in_words, thought_words, waiting_line

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
STATIC = ROOT / "static"
NEWEST = 60
"""So many messages at the end of a conversation come with its page, and as many at a time before them."""
AROUND = 20
"""So many messages before and after one that is jumped to."""


class Presenter:
    """Makes pages and the pieces of pages that frames carry, for people who read one language."""

    def __init__(self, language: Language, languages: Iterable[Language]) -> None:
        """`languages` are all that the page offers."""
        self.language = language
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=select_autoescape(),
            undefined=StrictUndefined,
            auto_reload=False,
        )
        self._environment.globals |= {
            "asset": asset_url,
            "language": language,
            "languages": tuple(languages),
            "t": language.t,
            "plural": language.plural,
            "number": language.number,
            "sentence": language.sentence,
            "label_in_words": partial(label_in_words, language),
            "duration": partial(duration_words, language),
            "spaces_shown": spaces_shown,
            "device_words": partial(device_words, language),
            "range_in_words": partial(range_in_words, language),
            "thought_words": partial(thought_words, language),
            "waiting_line": partial(waiting_line, language),
        }

    def page(self, page: ChatPage) -> str:
        """The whole chat page."""
        return self._render("chat.html", page=page)

    def transfer(self, max_bytes: int, job_id: str | None) -> str:
        """The page to export and import on; `job_id` is an import that is or was under way."""
        return self._render("transfer.html", max_bytes=max_bytes, job_id=job_id)

    def letter(self, letter: Letter) -> str:
        """A conversation to be printed."""
        return self._render("letter.html", letter=letter)

    def error(self, title: str, message: str) -> str:
        """A page that says what is wrong; the title is still to be translated, the message is a sentence."""
        return self._render("error.html", title=title, message=message)

    def offline(self) -> str:
        """The page that a browser keeps for when this server cannot be reached."""
        return self._render("offline.html")

    def pairing(self) -> str:
        """The page of a device that was not let in."""
        return self._render("pair.html")

    def invitation(self, invitation: InvitationView) -> str:
        """The inside of the owner's sheet."""
        return self._render("_invitation.html", invitation=invitation)

    def message(self, message: MessageView) -> str:
        """One message."""
        return self._render("_message.html", message=message)

    def system(self, system: SystemView | None) -> str:
        """The system text above the messages; empty where there is none."""
        return self._render("_system.html", system=system)

    def presets(self, presets: Sequence[PresetView]) -> str:
        """The choice of presets for a new chat."""
        return self._render("_presets.html", presets=presets)

    def settings(self, settings: SettingsView) -> str:
        """The inside of the sheet of settings."""
        return self._render("_settings.html", settings=settings)

    def record(self, record: RecordView) -> str:
        """The inside of the sheet of one reply."""
        return self._render("_record.html", record=record)

    def compare(self, compare: CompareView) -> str:
        """The page of two branches side by side."""
        return self._render("compare.html", compare=compare)

    def reply_tokens(self, page: ReplyTokensPage) -> str:
        """The page of one reply's tokens."""
        return self._render("reply_tokens.html", page=page)

    def transcript(self, transcript: TranscriptView) -> str:
        """All messages of a branch."""
        return self._render("_transcript.html", transcript=transcript)

    def messages(self, transcript: TranscriptView, kept_id: str | None) -> str:
        """The messages of a branch after one of them (None: all), without what stands before the first."""
        at = next((i for i, message in enumerate(transcript.messages) if message.id == kept_id), -1)
        earlier = transcript.earlier if at < 0 else None
        rest = replace(transcript, messages=transcript.messages[at + 1 :], earlier=earlier)
        return self._render("_messages.html", transcript=rest)

    def conversations(self, page: ConversationPage, current_id: str | None) -> str:
        """A piece of the conversation list."""
        return self._render("_conversations.html", listed=page, current_id=current_id)

    def search(self, page: SearchPage) -> str:
        """The page of a search."""
        return self._render("search.html", page=page)

    def found(self, found: FoundView) -> str:
        """Results alone, for the sidebar."""
        return self._render("_found.html", found=found, quick=True)

    def tokens(self, view: TokensPage) -> str:
        """The page that cuts text into tokens."""
        return self._render("tokens.html", view=view, table=view.table, limits=LIMITS)

    def token_rows(self, table: TokenTable) -> str:
        """Its result alone."""
        return self._render("_tokens.html", table=table)

    def status(self, view: StatusView) -> str:
        """The page that tells what the engine does."""
        return self._render("status.html", view=view)

    def status_now(self, view: StatusView) -> str:
        """Its changing part."""
        return self._render("_status.html", view=view)

    def glossary(self, groups: Sequence[GroupView]) -> str:
        """The glossary; in English where nobody wrote one in this language."""
        names = [f"learn/{self.language.code}.html", "learn/en.html"]
        prose = self._environment.select_template(names).module
        return self._render("learn.html", groups=groups, prose=prose)

    def _render(self, name: str, **context: Any) -> str:
        return self._environment.get_template(name).render(**context)


@lru_cache(maxsize=1)
def static_build() -> str:
    """A name for the static files, and for the page that browsers keep, as they are now.

    It is part of their path, not a query, since modules import each other by relative addresses: all of
    them change together, and browsers may keep each for ever.
    """
    digest = sha256()
    kept = [TEMPLATES / "base.html", TEMPLATES / "offline.html"]
    for file in kept + sorted(path for path in STATIC.rglob("*") if path.is_file()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def asset_url(name: str) -> str:
    """The address of a static file."""
    return f"/static/{static_build()}/{name}"


def message_view(
    record: MessageRecord, running: RunningView | None = None, siblings: Siblings | None = None
) -> MessageView:
    """A message as the page shows it; `running` where it is still being written, `siblings` where it has
    some.
    """
    if record.role == "user":
        body = Markup(render_plain(record.text))
        return MessageView(record.id, "user", record.status, body, siblings=siblings, pinned=record.pinned)
    if running is not None and running.reply_id == record.id:
        thought = ReasoningView(running.reasoning, running.reasoning_s, not running.thought)
        return MessageView(
            record.id,
            "assistant",
            "running",
            Markup(running.body),
            Markup(running.tail),
            running.seq,
            progress=running.progress,
            reasoning=thought if running.reasoning else None,
            siblings=siblings,
        )
    return MessageView(
        record.id,
        "assistant",
        record.status,
        Markup(_rendered(record.text)),
        seq=end_seq(record),
        finish_reason=record.finish_reason,
        error=record.error,
        line=_quiet_line(record),
        reasoning=_reasoning(record),
        siblings=siblings,
        can_continue=_can_continue(record),
        pinned=record.pinned,
    )


def end_seq(record: MessageRecord) -> int:
    """Tells the end of a reply from one that it had before it went on; 0 where it has not ended."""
    return int(1000 * record.finished_at.timestamp()) if record.finished_at else 0


def transcript_view(
    conversation: ConversationRecord,
    messages: Sequence[MessageRecord],
    running: RunningView | None,
    system: SystemView | None,
    siblings: Mapping[str, Siblings],
    at: str | None = None,
) -> TranscriptView:
    """The newest messages of a branch: a long one comes to the page piece by piece. With the message `at`,
    also those around it.
    """
    start = max(0, len(messages) - NEWEST)
    place = next((i for i, message in enumerate(messages) if message.id == at), start)
    near = messages[max(0, place - AROUND) : place + AROUND] if place < start else ()
    first = max(0, place - AROUND) if near else start
    gap = bool(near) and first + len(near) < start
    shown = [*near, *messages[start:]] if gap else messages[first:]
    views = [message_view(message, running, siblings.get(message.id)) for message in shown]
    return TranscriptView(
        views,
        conversation.cut_id,
        system,
        bool(views) and views[-1].role == "user",
        _earlier(messages[first]) if first else None,
        _earlier(messages[start], after=near[-1].id) if gap else None,
        conversation.origin,
    )


def _earlier(first: MessageRecord, after: str = "") -> EarlierView:
    url = f"/c/{first.conversation_id}/earlier?before={first.id}"
    return EarlierView(url + (f"&after={after}" if after else ""), first.parent_id or "", first.id)


@lru_cache(maxsize=2_048)
def _rendered(text: str) -> str:
    return render_in_parts(text)


def _quiet_line(record: MessageRecord) -> QuietLine | None:
    usage, timings = record.usage, record.timings
    if usage is None or timings is None:
        return None
    begun = (record.context or {}).get("begun", 0)
    return QuietLine(
        completion_tokens=usage["completion_tokens"] + begun,
        reasoning_tokens=usage.get("reasoning_tokens", 0),
        begun=begun,
        prompt_tokens=usage["prompt_tokens"],
        cached_tokens=usage["cached_tokens"],
        ttft_s=timings["ttft_s"],
        decode_tok_s=timings["decode_tok_s"],
        stop_s=timings["stop_s"],
        reuse_lost=_reuse_lost(record.context),
        model=record.model or "",
    )


def _can_continue(record: MessageRecord) -> bool:
    """Whether the reply was cut short and has a beginning."""
    ended = record.status in (Status.DONE, Status.INTERRUPTED)
    return ended and record.finish_reason != "stop" and bool(record.token_ids)


def _reasoning(record: MessageRecord) -> ReasoningView | None:
    if not record.reasoning:
        return None
    seconds = record.timings.get("reasoning_s") if record.timings else None
    return ReasoningView(record.reasoning, seconds)


def _reuse_lost(context: Mapping[str, Any] | None) -> str | None:
    return context.get("reuse_lost") if context else None
