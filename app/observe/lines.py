"""Log lines that nobody outside can forge or blow up: models, tools and clients choose names that are logged."""

from __future__ import annotations

import copy
import logging
import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any, TextIO

MAX_MESSAGE_CHARS = 4000

_SHARED = "zone_time_message"  # the attribute of a record for what its handlers share

_OFFSET_AT = len("2026-01-05 08:30:00")

_CONTROL = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What ends a line, drives a terminal, turns round what is read, or is not seen at all."""

_PATH = re.compile(r"(?<![\w:/.~…-])(?:/[^\s/:;,'\"<>|()]+){2,}/?|\b[A-Za-z]:\\[^\s:;,'\"<>|()]+")


_NOWHERE: Mapping[str, Any] = {
    "pathname": "",
    "filename": "",
    "module": "",
    "lineno": 0,
    "funcName": None,
    "relativeCreated": 0.0,
    "thread": None,
    "threadName": None,
    "processName": None,
    "process": None,
    "taskName": None,
}


class PlainRecord(logging.LogRecord):
    """A record without the place in the code and the names of thread and process, which no line shows.

    Finding them out, even as far as the settings of ``logging`` allow to leave that, costs as much as the rest.
    """

    def __init__(
        self,
        name: str,
        level: int,
        pathname: str,
        lineno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        sinfo: str | None = None,
        **others: object,
    ) -> None:
        if args and len(args) == 1 and isinstance(args[0], dict) and args[0]:
            args = args[0]  # the message names its values
        self.__dict__.update(_NOWHERE)
        self.name = name
        self.msg = msg
        self.args = args
        self.levelno = level
        self.levelname = logging.getLevelName(level)
        self.exc_info = exc_info
        self.exc_text = None
        self.stack_info = sinfo
        self.created = now = time.time()
        self.msecs = float(int(now * 1000) % 1000)


class LineFormatter(logging.Formatter):
    """One line for each message, whatever is in it: control characters are written as escapes, long messages are cut.

    A traceback follows on lines of its own, as usual. Times are told in ``zone`` (without one in that of the machine),
    with its offset; it may be set anew at any time.
    """

    def __init__(self, layout: str, zone: tzinfo | None = None) -> None:
        super().__init__(layout)
        self._layout = layout
        self.zone = zone
        self._second: tuple[int, tzinfo | None, str, str] = (-1, None, "", "")

    def format(self, record: logging.LogRecord) -> str:
        """The whole line. What screen and file both show, the time and the message, is made by who comes first."""
        if record.exc_info or record.exc_text or record.stack_info:
            return super().format(record)
        shared = record.__dict__.get(_SHARED)
        if shared is None or shared[0] is not self.zone:
            shared = self.zone, self.formatTime(record), one_line(record.getMessage())
            record.__dict__[_SHARED] = shared
        _, record.asctime, record.message = shared
        return self._layout % record.__dict__

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - a name of logging
        """When it happened, to the millisecond."""
        second, micros = divmod(round(record.created * 1e6), 1_000_000)
        known, zone, time_of_day, offset = self._second
        if second != known or zone is not self.zone:  # most lines come in the second of another one
            zone = self.zone
            moment = datetime.fromtimestamp(second, zone)
            text = (moment if zone else moment.astimezone()).isoformat(" ", "seconds")
            time_of_day, offset = text[:_OFFSET_AT], text[_OFFSET_AT:]
            self._second = (second, zone, time_of_day, offset)
        return f"{time_of_day}.{micros // 1000:03d}{offset}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - a name of logging
        """The line without traceback."""
        record.message = one_line(record.message)
        return super().formatMessage(record)


class BriefLines(LineFormatter):
    """One line for each message and nothing of this machine: no traceback, no absolute path (mcp.md STD-47).

    Of a message that has several lines the first is told: what follows are details, such as the text of an exception.
    A path is cut to its last name; ``folders`` are cut out whole first, since only whoever knows them can tell where
    one with blanks in it ends.
    """

    def __init__(self, layout: str, zone: tzinfo | None = None, *, folders: Iterable[str] = ()) -> None:
        super().__init__(layout, zone)
        known = sorted({folder.rstrip("/\\") for folder in folders} - {""}, key=len, reverse=True)
        self._folders = re.compile("|".join(map(re.escape, known))) if known else None

    def format(self, record: logging.LogRecord) -> str:
        """The whole line; of an exception only the name of its class."""
        kind = type(record.exc_info[1]).__name__ if record.exc_info and record.exc_info[1] is not None else ""
        brief = copy.copy(record)
        brief.__dict__.pop(_SHARED, None)
        brief.msg, brief.args = self._clean(record.getMessage().partition("\n")[0]) + (f" ({kind})" if kind else ""), ()
        brief.exc_info = brief.exc_text = brief.stack_info = None
        return super().format(brief)

    def _clean(self, text: str) -> str:
        if self._folders is not None:
            text = self._folders.sub("…", text)
        return _PATH.sub(lambda found: re.split(r"[\\/]", found[0].rstrip("/\\"))[-1], text)


class ScreenLog(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, each at once."""

    def handle(self, record: logging.LogRecord) -> bool:
        """What the library does in three times as many steps; a filter, which nothing here sets, gets its way."""
        if self.filters:
            return bool(super().handle(record))
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; lines of several threads do not mix."""
        try:
            text = self.format(record) + self.terminator
            self.acquire()
            try:
                self.stream.write(text)
                self.stream.flush()
            finally:
                self.release()
        except (OSError, TypeError, ValueError):  # arguments that do not fit their message, or a stream that is closed
            self.handleError(record)


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
