"""Copies of ``config.env`` that are made before each change: ``.vcp/config_backups``, readable for their owner only."""

from __future__ import annotations

import itertools
import logging
import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.config.durable import create_atomic
from app.config.small_file import read_small
from app.errors import NotFoundError, both

log = logging.getLogger(__name__)

FOLDER = Path(".vcp") / "config_backups"
"""Where the copies are, below the home."""

KEEP = 50
"""Copies that are kept; the oldest go."""

MAX_BYTES = 16 * 1024 * 1024
"""Of a copy more than this is not read; no ``config.env`` that the server reads is larger."""

_NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z\.env")
_LAYOUT = "%Y%m%dT%H%M%S.%fZ.env"
_TRIES = 100


@dataclass(frozen=True, slots=True)
class Backup:
    """One copy. ``made`` is when, in UTC; ``size`` is in bytes."""

    name: str
    made: datetime
    size: int


def keep_copy(home: Path, data: bytes, now: datetime) -> str:
    """Keep these bytes as a copy made at ``now`` and return its name; blocks.

    When the newest copy says the same, there is no second one. Raises OSError when the copy cannot be made.
    """
    folder = home / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = backups(home)
    if found and found[0].size == len(data) and read_backup(home, found[0].name) == data:
        return found[0].name
    for later in range(_TRIES):
        name = _name(now + timedelta(milliseconds=later))
        if create_atomic(folder / name, data, 0o600):
            break
    else:
        raise FileExistsError(f"{folder} holds {_TRIES} copies of this moment")
    for old in itertools.islice(backups(home), KEEP, None):
        try:
            (folder / old.name).unlink()
        except OSError as error:
            log.warning("the backup %s cannot be removed: %s", old.name, error.strerror or error)
    return name


def backups(home: Path) -> list[Backup]:
    """All copies, the newest first; files of other names, links and folders are none. Blocks; raises OSError."""
    found = []
    try:
        with os.scandir(home / FOLDER) as entries:
            for entry in entries:
                made = _made(entry.name)
                if made is None:
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append(Backup(entry.name, made, status.st_size))
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda backup: backup.name, reverse=True)


def read_backup(home: Path, name: str) -> bytes:
    """The bytes of a copy; blocks. Raises NotFoundError for names that are no copy's, and OSError."""
    missing = NotFoundError(both("没有这个备份", "there is no such backup"))
    if _made(name) is None or (home / FOLDER / name).is_symlink():
        raise missing
    try:
        return read_small(home / FOLDER / name, MAX_BYTES)
    except FileNotFoundError:
        raise missing from None


def _name(moment: datetime) -> str:
    utc = moment.astimezone(UTC)
    return f"{utc:%Y%m%dT%H%M%S}.{utc.microsecond // 1000:03d}Z.env"


def _made(name: str) -> datetime | None:
    if not _NAME.fullmatch(name):
        return None
    try:
        return datetime.strptime(name, _LAYOUT).replace(tzinfo=UTC)
    except ValueError:
        return None
