"""The conversation list as pages show it: in pieces, under the days of whoever looks. Event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool

from storage.listing import Listing, Place
from storage.people import People
from storage.records import ConversationRecord
from web.views import ConversationGroup, ConversationItem, ConversationPage
from web.wording import PINNED, day_label
from web.zones import day_of

PAGE = 50
MOST = 1_000
"""So many rows come again at once to a page that has loaded as many."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class BadPlace(ValueError):
    """That is no place in the list."""


def place_in_words(record: ConversationRecord) -> str:
    """Where a conversation stands, for an address."""
    return f"{(record.updated_at - _EPOCH) // _MICROSECOND}-{record.id}"


def place_of(words: str) -> Place:
    """What `place_in_words` gave. Raises `BadPlace`."""
    moment, _, conversation_id = words.partition("-")
    try:
        return _EPOCH + int(moment[:20]) * _MICROSECOND, conversation_id
    except (ValueError, OverflowError):
        raise BadPlace("That place in the list is not known.") from None


async def read_page(
    listing: Listing,
    is_running: Callable[[str], bool],
    people: People,
    person: str,
    zone: tzinfo | None,
    *,
    archived: bool = False,
    before: Place | None = None,
    until: Place | None = None,
) -> ConversationPage:
    """The piece of a person's list after `before`, or the whole of it down to `until`."""
    limit = MOST if until else PAGE
    rows = await run_in_threadpool(
        listing.page, limit + 1, person=person, archived=archived, before=before, until=until
    )
    first = before is None
    pinned = await run_in_threadpool(listing.pinned, person) if first and not archived else []
    names = await run_in_threadpool(people.names)

    def item(record: ConversationRecord) -> ConversationItem:
        return ConversationItem(
            record.id,
            record.title,
            place_in_words(record),
            is_running(record.id),
            record.pinned and record.person_id == person,
            record.shared,
            None if record.person_id == person else names.get(record.person_id, ""),
        )

    shown = rows[:limit]
    groups = _by_day(shown, item, day_of(datetime.now(UTC), zone), zone, None if first else before)
    if pinned:
        groups.insert(0, ConversationGroup(PINNED, [item(each) for each in pinned]))
    more = None
    if shown and (len(rows) > limit or until):
        query = {"before": place_in_words(shown[-1])} | ({"archived": "1"} if archived else {})
        more = f"/conversations?{urlencode(query)}"
    return ConversationPage(groups, more, archived, first)


def _by_day(
    rows: Sequence[ConversationRecord],
    item: Callable[[ConversationRecord], ConversationItem],
    today: date,
    zone: tzinfo | None,
    before: Place | None,
) -> list[ConversationGroup]:
    """Under headings; the first of them was already there if the row before had the same."""
    groups: dict[str | date, list[ConversationItem]] = {}
    for row in rows:
        label = day_label(day_of(row.updated_at, zone), today)
        groups.setdefault(label, []).append(item(row))
    above = day_label(day_of(before[0], zone), today) if before else None
    return [ConversationGroup(None if label == above else label, items) for label, items in groups.items()]
