"""A conversation as something to read on paper: the chosen branch, with names and dates. Any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from babel.dates import format_date, format_time
from markupsafe import Markup

from storage.transfer.schema import ExportedConversation, ExportedMessage, chosen_branch
from web.language import Language
from web.markdown import render, render_plain


@dataclass(frozen=True, slots=True)
class LetterMessage:
    """One message. `day` is set where it is another than that of the one before. `who` is a name."""

    mine: bool
    who: str
    day: str | None
    time: str
    text: str
    reasoning: str | None
    outcome: str | None

    @property
    def body(self) -> Markup:
        """As the chat shows it: rendered markdown for a reply, a person's text as typed."""
        return Markup(render_plain(self.text) if self.mine else render(self.text))


@dataclass(frozen=True, slots=True)
class Letter:
    """A whole conversation. `dates` is a day or two, `models` those that wrote in it."""

    id: str
    title: str
    dates: str
    models: str
    origin: str | None
    system_prompt: str
    messages: Sequence[LetterMessage]


def letter(conversation: ExportedConversation, language: Language, zone: tzinfo | None = None) -> Letter:
    """The conversation in a person's language. `zone` is this machine's own where none is given."""
    branch = chosen_branch(conversation)
    when = [message.created_at.astimezone(zone) for message in branch]
    days = [_day(moment.date(), language) for moment in when]
    messages = [
        _message(message, moment, days[i] if i == 0 or days[i] != days[i - 1] else None, language)
        for i, (message, moment) in enumerate(zip(branch, when, strict=True))
    ]
    ends = dict.fromkeys([days[0], days[-1]] if days else [_day(conversation.created_at.date(), language)])
    models = dict.fromkeys(message.model for message in branch if message.model)
    return Letter(
        id=conversation.id,
        title=conversation.title,
        dates=" – ".join(ends),
        models=", ".join(models),
        origin=conversation.origin,
        system_prompt=conversation.system_prompt,
        messages=messages,
    )


def markdown(written: Letter, language: Language) -> Iterator[str]:
    """The letter as Markdown, piece by piece. What people and models wrote stands as it is."""
    yield f"# {_one_line(written.title)}\n\n"
    yield f"*{' · '.join(part for part in (written.dates, written.models) if part)}*\n"
    if written.origin:
        yield f"\n*{language.t('Imported from {program}', program=written.origin)}*\n"
    if written.system_prompt:
        yield f"\n**{language.t('System text')}**\n\n{_quoted(written.system_prompt)}\n"
    for message in written.messages:
        moment = f"{message.day}, {message.time}" if message.day else message.time
        yield f"\n---\n\n**{_one_line(message.who)}** · {moment}\n\n"
        if message.reasoning:
            yield f"{_quoted(message.reasoning)}\n\n"
        yield f"{message.text}\n"
        if message.outcome:
            yield f"\n*{message.outcome}*\n"


def _message(
    message: ExportedMessage, moment: datetime, day: str | None, language: Language
) -> LetterMessage:
    mine = message.role == "user"
    return LetterMessage(
        mine=mine,
        who=language.t("You") if mine else message.model or language.t("Reply"),
        day=day,
        time=format_time(moment, "short", locale=language.locale),
        text=message.text,
        reasoning=message.reasoning,
        outcome=None if mine else _outcome(message, language.t),
    )


def _outcome(message: ExportedMessage, t: Callable[[str], str]) -> str | None:
    """Why a reply is not whole."""
    if message.finish_reason == "abort":
        return t("stopped")
    if message.finish_reason == "length":
        return t("ended at the token limit")
    return t("interrupted") if message.status == "interrupted" or message.error else None


def _day(day: date, language: Language) -> str:
    return format_date(day, "long", locale=language.locale)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
