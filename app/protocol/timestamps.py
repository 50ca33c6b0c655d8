"""The time format of tool results (spec 4.6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

_MINUTE = timedelta(minutes=1)


def iso_millis(seconds: float, zone: tzinfo) -> str:
    """``YYYY-MM-DDTHH:mm:ss.mmm±HH:MM`` of a moment, seen from ``zone``.

    ``seconds`` counts from the epoch and is rounded to the nearest millisecond: a clock's 0.123 s is often a float
    just below it. The offset is cut to whole minutes.
    """
    whole, millis = divmod(round(seconds * 1000), 1000)
    moment = datetime.fromtimestamp(whole, UTC).astimezone(zone)
    minutes = (moment.utcoffset() or timedelta()) // _MINUTE
    sign = "-" if minutes < 0 else "+"
    hours, minutes = divmod(abs(minutes), 60)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis:03d}{sign}{hours:02d}:{minutes:02d}"
