"""Names for files that people download. They are made here; of a title only harmless characters come in."""

from __future__ import annotations

import re
import unicodedata
from datetime import date
from urllib.parse import quote

from storage.transfer.schema import ExportedConversation

MAX_CHARS = 60
_FORBIDDEN = re.compile(r'[\\/:*?"<>|%~]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)\b", re.IGNORECASE)


def file_name(conversation: ExportedConversation, ending: str) -> str:
    """A name with the day, the title and enough of the id to be alone in a folder."""
    day = conversation.created_at.astimezone().date().isoformat()
    return (
        " ".join(part for part in (day, harmless(conversation.title), conversation.id[:8]) if part) + ending
    )


def name_for_all(day: date, ending: str) -> str:
    """The name of a file with every conversation."""
    return f"ondol-{day.isoformat()}{ending}"


def harmless(title: str) -> str:
    """What of a title may stand in a file's name on every system; may be empty."""
    composed = unicodedata.normalize("NFC", title)
    shown = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in composed)
    words = " ".join(_FORBIDDEN.sub(" ", shown).split()).strip(". ")
    cut = words[:MAX_CHARS].rstrip(". ")
    return "" if _RESERVED.match(cut) else cut


def content_disposition(name: str) -> str:
    """The header for a download (RFC 6266), its name twice: in ASCII, and whole (RFC 8187)."""
    plain = re.sub(r"[^A-Za-z0-9._ -]+", "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
