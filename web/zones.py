"""Which day it is for whoever looks: a browser tells its time zone in a cookie. Any thread."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from starlette.requests import HTTPConnection

COOKIE = "ondol_zone"
"""Set by the page (`static/js/conversation-list.js`): a name such as Asia/Seoul."""


def zone_of(connection: HTTPConnection) -> tzinfo | None:
    """The browser's time zone; None for this machine's own, where it named none that is known here."""
    return _zone(connection.cookies.get(COOKIE, "")[:64])


def day_of(moment: datetime, zone: tzinfo | None) -> date:
    """The day of a moment by that zone."""
    return moment.astimezone(zone).date()


def day_begins(day: date, zone: tzinfo | None) -> datetime:
    """The moment in which a day begins there."""
    midnight = datetime.combine(day, time())
    return midnight.replace(tzinfo=zone) if zone else midnight.astimezone()


def day_ends(day: date, zone: tzinfo | None) -> datetime:
    """The moment in which the next day begins there. Raises `OverflowError` for the last day of all."""
    return day_begins(day + timedelta(days=1), zone)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, LookupError):  # ZoneInfoNotFoundError is a LookupError
        return None
