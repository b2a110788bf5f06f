"""From stored records and running replies to HTML in one language. Rendering blocks: call it from a pool
thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from web.device_names import device_words
from web.found_view import FoundView, SearchPage
from web.glossary import GroupView
from web.language import Language
from web.letters import Letter
from web.review_views import CompareView, RecordView, ReplyTokensPage
from web.saving import Unsaved
from web.scripts import texts_at_first
from web.settings_view import SettingsView
from web.status_view import StatusView
from web.token_table import LIMITS, TokensPage, TokenTable, spaces_shown
from web.views import (
    AccountView,
    ChatPage,
    ConversationPage,
    DeviceListView,
    InvitationView,
    MessageView,
    PresetView,
    RightView,
    SystemView,
    TranscriptView,
)
from web.wording import duration_words, label_in_words, range_in_words, thought_words, waiting_line

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
STATIC = ROOT / "static"


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
        self._environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
        self._environment.globals |= {
            "asset": asset_url,
            "script_texts": partial(texts_at_first, language),
            "language": language,
            "languages": tuple(languages),
            "t": language.t,
            "plural": language.plural,
            "number": language.number,
            "sentence": language.sentence,
            "label_in_words": partial(label_in_words, language),
            "duration": partial(duration_words, language),
            "spaces_shown": spaces_shown,
            "day": language.day,
            "moment": language.moment,
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

    def error(self, title: str, message: str, fault: str | None = None) -> str:
        """A page that says what is wrong; the title is still to be translated, the message is a sentence.
        `fault` is what the log calls it.
        """
        return self._render("error.html", title=title, message=message, fault=fault)

    def offline(self) -> str:
        """The page that a browser keeps for when this server cannot be reached."""
        return self._render("offline.html")

    def pairing(self, *, encrypted: bool, by_password: bool) -> str:
        """The page of a device that was not let in; `by_password` where somebody has one."""
        return self._render("pair.html", encrypted=encrypted, by_password=by_password)

    def account(self, account: AccountView) -> str:
        """The page about oneself."""
        return self._render("you.html", account=account)

    def devices(self, listed: DeviceListView) -> str:
        """The list of devices in the owner's sheet."""
        return self._render("_devices.html", listed=listed)

    def invitation(self, invitation: InvitationView) -> str:
        """The inside of the owner's sheet."""
        return self._render("_invitation.html", invitation=invitation)

    def message(self, message: MessageView) -> str:
        """One message."""
        return self._render("_message.html", message=message)

    def system(self, system: SystemView | None) -> str:
        """The system text above the messages; empty where there is none."""
        return self._render("_system.html", system=system)

    def unsaved(self, unsaved: Unsaved) -> str:
        """Why nothing can be saved now, and what to do."""
        return self._render("_unsaved.html", unsaved=unsaved)

    def right(self, right: RightView) -> str:
        """The line over a conversation that is shared; empty over others."""
        return self._render("_right.html", right=right)

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
