"""Variables in the texts of a preset that hold for every role, fixed at the moment of injection (memory.md 6.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from app.config.small_file import read_small
from app.prompt.dates import date_word

from .chat_times import LAST_CHAT_TIME, TIME_SINCE

TEXT_FOLDER = "TVStxt"
TEXT_LIMIT = 1024 * 1024

_PLACEHOLDER = re.compile(r"\{\{([^{}\r\n]{1,100})\}\}")
_CONFIGURED = re.compile(r"(?:Tar|Var|Sar)\w+")
_TEXT_FILE = re.compile(r"\w[\w .()-]{0,99}\.txt", re.IGNORECASE)
_DATES = frozenset({"Date", "Time", "Today"})


def wants_chat_times(text: str) -> bool:
    """Whether a text names one of the variables that need the log of chats."""
    return f"{{{{{LAST_CHAT_TIME}}}}}" in text or f"{{{{{TIME_SINCE}}}}}" in text


class Values:
    """What stands for the variables of one request.

    Dates and times of chats hold in every text. Names in ``allowed`` are the preset's ``placeholderAllowlist``: the
    festival, and variables of the configuration, hold in every role too; others are left to the expansion that follows.
    """

    def __init__(
        self,
        now: datetime,
        chat_times: Callable[[], tuple[str, str]],
        allowed: frozenset[str],
        environ: Mapping[str, str],
        home: Path,
    ) -> None:
        self._now = now
        self._chat_times = chat_times
        self._allowed = allowed
        self._environ = environ
        self._home = home

    def resolve(self, text: str) -> str:
        """The text with its variables replaced; what is put in is not looked at again."""
        return _PLACEHOLDER.sub(lambda match: self._value(match[1], match[0]), text) if "{{" in text else text

    def _value(self, name: str, written: str) -> str:
        if name in _DATES or (name == "Festival" and name in self._allowed):
            return date_word(name, self._now)
        if name == LAST_CHAT_TIME:
            return self._chat_times()[0]
        if name == TIME_SINCE:
            return self._chat_times()[1]
        if name in self._allowed and _CONFIGURED.fullmatch(name):
            value = self._environ.get(name)
            return written if value is None else self._text(value)
        return written

    def _text(self, value: str) -> str:
        """The value of a variable; of one that names a file in ``TVStxt``, the file's text."""
        if not _TEXT_FILE.fullmatch(value):
            return value
        try:
            return read_small(self._home / TEXT_FOLDER / value, TEXT_LIMIT).decode("utf-8-sig", "replace")
        except OSError:
            return value
