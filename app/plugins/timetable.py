"""Times of cron expressions with five fields, or six of which the first is for seconds (spec 5.2, 5.6; P75, P76)."""

from __future__ import annotations

from datetime import datetime, tzinfo

from cronsim import CronSim, CronSimError

MAX_CRON_CHARS = 200
"""Longest expression that is read; real ones have a tenth of it."""

_SECONDS_FIELDS = 6
_MOST_REPEATED = 24 * 60 * 60
"""Times that a clock which is set back may repeat in one night: each second of a day, and no more."""


def cron_fault(expression: str) -> str:
    """Why an expression is none, in English for the log; empty when it can be used."""
    if len(expression) > MAX_CRON_CHARS:
        return f"a cron expression has at most {MAX_CRON_CHARS} characters"
    fields = len(expression.split())
    if fields not in (_SECONDS_FIELDS - 1, _SECONDS_FIELDS):
        return f"a cron expression has 5 fields, or 6 with seconds in front, not {fields}"
    try:
        next(CronSim(expression, datetime(2000, 1, 1)))
    except CronSimError as error:
        return f"no cron expression: {str(error)[:1].lower()}{str(error)[1:]}"
    except StopIteration:
        return "this time never comes"
    return ""


def next_time(expression: str, after: float, zone: tzinfo) -> float | None:
    """The first time of a sound expression later than ``after``, on the clocks of ``zone``; seconds since the epoch.

    Days of the week are those of cron: Sunday is 0 and 7. None when no time is left within fifty years. With five
    fields an hour that the clocks skip is made up for and one that they repeat counts once, as Debian's cron has it.
    """
    times = CronSim(expression, datetime.fromtimestamp(after, zone))
    for _ in range(_MOST_REPEATED):
        try:
            moment = next(times).timestamp()
        except StopIteration:
            return None
        if moment > after:
            return moment
    return None
