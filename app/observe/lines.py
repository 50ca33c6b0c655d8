"""Log lines that nobody outside can forge or blow up: models, tools and clients choose names that are logged."""

from __future__ import annotations

import logging
import re
from datetime import datetime, tzinfo

MAX_MESSAGE_CHARS = 4000

_SHARED = "zone_time_message"  # the attribute of a record for what its handlers share

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class LineFormatter(logging.Formatter):
    """One line for each message, whatever is in it: control characters are written as escapes, long messages are cut.

    A traceback follows on lines of its own, as usual. Times are told in ``zone`` (without one in that of the machine),
    with its offset; it may be set anew at any time.
    """

    def __init__(self, layout: str, zone: tzinfo | None = None) -> None:
        super().__init__(layout)
        self.zone = zone

    def format(self, record: logging.LogRecord) -> str:
        """The whole line. What screen and file both show, the time and the message, is made by who comes first."""
        if record.exc_info or record.exc_text or record.stack_info:
            return super().format(record)
        shared = record.__dict__.get(_SHARED)
        if shared is None or shared[0] is not self.zone:
            shared = self.zone, self.formatTime(record), one_line(record.getMessage())
            record.__dict__[_SHARED] = shared
        _, record.asctime, record.message = shared
        return self._style.format(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - a name of logging
        """When it happened, to the millisecond."""
        moment = datetime.fromtimestamp(record.created, self.zone)
        return (moment if self.zone else moment.astimezone()).isoformat(" ", "milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - a name of logging
        """The line without traceback."""
        record.message = one_line(record.message)
        return super().formatMessage(record)


def set_log(level: int, zone: tzinfo) -> None:
    """Log from ``level`` on, with times in ``zone``, wherever lines of this form are written to."""
    root = logging.getLogger()
    root.setLevel(level)
    for handler in root.handlers:
        if isinstance(handler.formatter, LineFormatter):
            handler.formatter.zone = zone


def one_line(text: str) -> str:
    """``text`` with escapes for control characters, and cut when it is longer than ``MAX_MESSAGE_CHARS``."""
    if len(text) > MAX_MESSAGE_CHARS:
        text = f"{text[:MAX_MESSAGE_CHARS]}… ({len(text)} characters)"
    if text.isprintable():  # nothing to look for, and much quicker than looking
        return text
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
