"""One language of the pages: its texts, numbers and ordinals. Immutable; any thread.

English stands in the sources, and is the key under which a catalogue, `locale/*/LC_MESSAGES/ondol.po`, has
the same in another language. To add a text:

- Write it where it is shown: `t("{count} of {limit}", count=…, limit=…)` or
  `plural("{n} token", "{n} tokens", n)`. Both have these names in Python, in templates and in `static/js`.
  A text that stands in a table is marked there, `msgid("Today")`, and goes through `t` where it is shown.
- A sentence of an exception, of a model's status or of a reply's record stays English where it is made: logs
  and the terminal want it so, and `inference` and `storage` know nothing of languages. Where a page shows it,
  `sentence` says it in the page's language. Values of an f-string are numbered: `{0} of {1} places …`.
- Run `python -m tests.web.texts`: it puts what is new into the catalogues and drops what is gone. Translate
  what it names; a test fails as long as anything is missing.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from io import BytesIO

from babel import Locale
from babel.dates import format_date, format_skeleton, format_time
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.numbers import format_compact_decimal, parse_pattern

VALUE = re.compile(r"\{\d+\}")
SCRIPTS = "static/js/"


def msgid(text: str) -> str:
    """Marks a text that `t` is given somewhere else."""
    return text


ORDINALS = {"one": msgid("{n}st"), "two": msgid("{n}nd"), "few": msgid("{n}rd"), "other": msgid("{n}th")}


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """What the pages say in one language. Make it with `read`.

    `for_scripts` holds what `static/js` shows: the English text, and the forms that it has in this language.
    `scripts` has the names of the files that show it.
    """

    code: str
    locale: Locale
    for_scripts: Mapping[str, Sequence[str]]
    scripts: Mapping[str, frozenset[str]]
    _translations: gettext.NullTranslations
    _patterns: Sequence[tuple[re.Pattern[str], str]]

    @classmethod
    def read(cls, code: str, catalogue: Catalog) -> Language:
        """The language that a catalogue holds. An empty one leaves everything as it stands in the sources."""
        messages = [message for message in catalogue if message.id]
        file = BytesIO()
        write_mo(file, catalogue)
        file.seek(0)
        scripts = {_key(m): _scripts(m) for m in messages if _scripts(m)}
        return cls(
            code,
            Locale.parse(code),
            {_key(m): _forms(m) for m in messages if _key(m) in scripts},
            scripts,
            gettext.GNUTranslations(file) if messages else gettext.NullTranslations(),
            _patterns(messages),
        )

    @property
    def name(self) -> str:
        """As its own speakers call it: “English”, “한국어”."""
        return str(self.locale.get_display_name())

    @property
    def mark(self) -> str:
        """Its name on a small button: “EN”, “한”."""
        return self.name[:2].upper() if self.name.isascii() else self.name[0]

    def t(self, text: str, **values: object) -> str:
        """A text of ours in this language."""
        said = self._translations.gettext(text) if text else ""  # gettext has its own facts under ""
        return said.format(**values) if values else said

    def plural(self, one: str, many: str, n: int, **values: object) -> str:
        """A text of ours that goes with a number, which it calls `{n}`."""
        return self._translations.ngettext(one, many, n).format(n=self.number(n), **values)

    def sentence(self, english: str) -> str:
        """What an exception, a status or a record says. A sentence that is not ours stays as it is."""
        if not english:
            return ""
        said = self._translations.gettext(english)
        if said != english:
            return said
        for pattern, template in self._patterns:
            if (found := pattern.fullmatch(english)) is not None:
                return template.format(*map(self.sentence, found.groups()))
        return english

    def number(self, value: float, digits: int = 0) -> str:
        """With its thousands grouped, and so many digits after the point."""
        return str(parse_pattern(f"#,##0.{'0' * digits}").apply(value, self.locale))

    def short_number(self, value: int) -> str:
        """A large number in three digits and a word, such as “135 million”."""
        rounded = float(f"{value:.3g}")
        return format_compact_decimal(rounded, format_type="long", locale=self.locale, fraction_digits=2)

    def month(self, day: date) -> str:
        """The month and year of a day: “November 2026”."""
        return str(format_skeleton("yMMMM", day, locale=self.locale))

    def day(self, day: date) -> str:
        """A day in full, such as “29 November 2026”."""
        return str(format_date(day, "long", locale=self.locale))

    def moment(self, moment: datetime, now: datetime) -> str:
        """The time to the minute where it is today's, else the day; both by the zone of `moment`."""
        if moment.date() == now.astimezone(moment.tzinfo).date():
            return str(format_time(moment.time(), "short", locale=self.locale))
        return self.day(moment)

    def ordinal(self, n: int) -> str:
        """1st, 2nd, 3rd, 4th …"""
        return self.t(ORDINALS[self.locale.ordinal_form(n)], n=n)


def _key(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def _scripts(message: Message) -> frozenset[str]:
    return frozenset(name.removeprefix(SCRIPTS) for name, _ in message.locations if name.startswith(SCRIPTS))


def _forms(message: Message) -> list[str]:
    return [message.string] if isinstance(message.string, str) else list(message.string or ())


def _patterns(messages: Sequence[Message]) -> list[tuple[re.Pattern[str], str]]:
    """Sentences with values in them, those that say most of themselves first."""
    sentences = [(m.id, m.string) for m in messages if isinstance(m.id, str) and VALUE.search(m.id)]
    sentences.sort(key=lambda sentence: -len(VALUE.sub("", sentence[0])))
    return [
        (re.compile("(.*?)".join(map(re.escape, VALUE.split(english))), re.DOTALL), str(said))
        for english, said in sentences
    ]
