"""Points in time as people, models and programs write them (spec 1.9, 7.1, 7.2), and as task files hold them."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from app.extend import Json

FIRST = datetime(1, 1, 3, tzinfo=UTC).timestamp()
LAST = datetime(9999, 12, 29, tzinfo=UTC).timestamp()
"""Between these a moment can be told in any zone."""

MAX_TEXT = 100
"""Characters of a text that may be a point in time."""

_MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905 - twelve quoted words are harder to read
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:[.,](?P<fraction>\d{1,9}))?)?"
_HALF = r"(?:\s*(?P<half>[AP])\.?M\.?)?"
_OFFSET = r"(?:\s*(?P<offset>Z|(?:GMT|UTC)?[+-]\d{1,2}(?::?\d{2})?|GMT|UTC))?(?:\s*\([^()]*\))?"
_TAIL = rf"(?:(?:[T\s,/.-]|\sat\s)+{_CLOCK}{_HALF}{_OFFSET})?"
_DAY_NAME = r"(?:(?P<weekday>[A-Z]{3,9})\.?,?\s+)?"
_MONTH_NAME = r"(?P<name>[A-Z]{3,9})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"

_FORMS = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"{_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}}){_TAIL}",
        rf"(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/{_YEAR}{_TAIL}",
        rf"{_DAY_NAME}{_MONTH_NAME}\s+{_DAY},?\s+{_YEAR}{_TAIL}",
        rf"{_DAY_NAME}{_DAY}[\s-]+{_MONTH_NAME},?[\s-]+{_YEAR}{_TAIL}",
        rf"{_YEAR}年\s*(?P<month>\d{{1,2}})月\s*(?P<day>\d{{1,2}})[日号]?"
        r"(?:\s*(?P<half>[上下]午)?\s*(?P<hour>\d{1,2})[:点时時](?:(?P<minute>\d{1,2})(?:[:分](?:(?P<second>\d{1,2})秒?)?)?)?)?",
    )
)


def parse_time(value: Json, zone: tzinfo) -> float:
    """The moment that ``value`` means, in seconds since the epoch.

    Text: ISO 8601 with or without an offset, year-month-day with ``-``, ``/`` or ``.`` and a time after a space, ``T``
    or one of these signs (``2026-1-5-8:30``), ``1/5/2026, 8:30 PM`` (month first), dates with English month names as
    browsers and mails write them, ``2026年1月5日 8点30分``. Without an offset it is a time in ``zone``, without a time
    its midnight. Numbers are milliseconds since the epoch. A time that a change of clocks skips is moved on by the
    change, of one that comes twice the first is meant. Raises ValueError for everything else, days that no calendar has
    among it, and for moments before ``FIRST`` and after ``LAST``.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return _within_calendar(value / 1000)
        except OverflowError as error:  # a whole number of hundreds of digits
            raise ValueError("beyond the calendar") from error
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError("not a point in time")
    text = unicodedata.normalize("NFKC", value).strip()
    for form in _FORMS:
        if found := form.fullmatch(text):
            return _within_calendar(_moment(found.groupdict(), zone))
    raise ValueError("not a point in time")


def _moment(parts: dict[str, str | None], zone: tzinfo) -> float:
    weekday = parts.get("weekday")
    if weekday and not any(name.startswith(weekday.lower()) for name in _WEEKDAYS):
        raise ValueError(f"{weekday} is no day of the week")
    hour = int(parts["hour"] or 0)
    minute, second = int(parts["minute"] or 0), int(parts["second"] or 0)
    half = parts["half"]
    if half:
        if not 1 <= hour <= 12:
            raise ValueError("a time with AM or PM has hours from 1 to 12")
        hour = hour % 12 + (12 if half in "Pp下午" else 0)
    next_day = (hour, minute, second) == (24, 0, 0)  # ISO 8601: the end of the day
    day = datetime(
        int(parts["year"] or 0),
        _month(parts),
        int(parts["day"] or 0),
        0 if next_day else hour,
        minute,
        second,
        int((parts.get("fraction") or "0")[:6].ljust(6, "0")),
        tzinfo=_offset(parts.get("offset")) or zone,
    )
    try:
        return (day + timedelta(days=next_day)).timestamp()
    except OverflowError as error:
        raise ValueError("beyond the calendar") from error


def _month(parts: dict[str, str | None]) -> int:
    name = parts.get("name")
    if name is None:
        return int(parts["month"] or 0)
    word = "sep" if name.lower() == "sept" else name.lower()
    found = [number for number, month in enumerate(_MONTHS, 1) if month.startswith(word)]
    if len(found) != 1:
        raise ValueError(f"{name} is no month")
    return found[0]


def _offset(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    digits = text.upper().removeprefix("GMT").removeprefix("UTC").replace(":", "")
    if digits in ("", "Z"):
        return UTC
    sign = -1 if digits[0] == "-" else 1
    hours, minutes = int(digits[1:3]), int(digits[3:] or 0)
    if minutes > 59:
        raise ValueError("an offset has minutes from 0 to 59")
    return timezone(sign * timedelta(hours=hours, minutes=minutes))


def _within_calendar(seconds: float) -> float:
    """``seconds`` if every zone's calendar has that moment."""
    if not FIRST <= seconds <= LAST:
        raise ValueError("beyond the calendar")
    return seconds


def local_time(seconds: float, zone: tzinfo) -> str:
    """A moment as task files and answers tell it: ``2026-01-05T08:00:00+08:00`` in ``zone``."""
    return datetime.fromtimestamp(math.floor(seconds), zone).isoformat(timespec="seconds")


def spoken_time(seconds: float, zone: tzinfo) -> str:
    """A moment as people and models read it: ``2026-01-05 08:00:00`` in ``zone``."""
    return f"{datetime.fromtimestamp(math.floor(seconds), zone):%Y-%m-%d %H:%M:%S}"
