"""The last lines of the server's log that are about one thing."""

from __future__ import annotations

import os
import re
from pathlib import Path

from app.observe.server_log import LOG_FOLDER, by_age

TAIL_BYTES = 1024 * 1024
"""So much of the end of the newest file is looked at."""

MAX_LINE_CHARS = 1000

_FILES = re.compile(r"ServerLog-\d{8}_\d{6}_\d{3}\.txt")


def lines_about(home: Path, word: str, count: int) -> tuple[str, ...]:
    """The last lines of the newest log in which ``word`` stands as a word of its own, the newest last; blocks.

    Empty when there is no log. Raises OSError.
    """
    files = by_age(home / LOG_FOLDER, _FILES)
    if not files or not word:
        return ()
    with files[-1][2].open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read(TAIL_BYTES).decode("utf-8", "replace").split("\n")
    about = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-])")
    found = [line[:MAX_LINE_CHARS] for line in lines[1 if size > TAIL_BYTES else 0 :] if about.search(line)]
    return tuple(found[-count:])
