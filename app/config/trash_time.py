"""Deletions in ``.vcp/trash``: names that are moments, so that they sort and grow old, and when they are due."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small

MAX_SAME_TIMES = 1000
"""Deletions of one millisecond that get a name."""

GRACE = timedelta(days=1)
"""What is due waits so long once more: a clock that was set wrong for an hour must not cost what is in the trash."""

DUE_FILE = ".due"
"""In the folder of a deletion: when it was found too old."""

_MAX_DUE_BYTES = 64

_ID = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2}-[0-9]{3}Z)(?:_[0-9]{1,4})?")


def new_deletion(folder: Path, now: datetime) -> str:
    """Make a folder of its own for what is deleted now below ``folder`` and return its name; raises OSError."""
    moment = now.astimezone(UTC)
    stem = f"{moment:%Y-%m-%dT%H-%M-%S}-{moment.microsecond // 1000:03d}Z"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(1, MAX_SAME_TIMES + 1):
        name = stem if number == 1 else f"{stem}_{number}"
        try:
            (folder / name).mkdir(mode=0o700)
        except FileExistsError:
            continue
        return name
    raise FileExistsError(f"{MAX_SAME_TIMES} deletions at {stem}")


def deleted_at(name: str) -> datetime | None:
    """When the deletion of this name was made; None for what is no such name."""
    found = _ID.fullmatch(name)
    if found is None:
        return None
    try:
        return datetime.strptime(found[1], "%Y-%m-%dT%H-%M-%S-%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def was_due(file: Path, now: datetime) -> bool:
    """Whether ``GRACE`` has gone by since this was first asked, which ``file`` keeps; a future time counts as none.

    ``now`` has a zone. Raises OSError.
    """
    try:
        since = datetime.fromisoformat(read_small(file, _MAX_DUE_BYTES).decode("ascii"))
        if timedelta(0) <= now - since:
            return now - since >= GRACE
    except (FileNotFoundError, ValueError, TypeError):
        pass  # not noted yet, or it is no time with a zone
    write_atomic(file, now.isoformat().encode(), 0o600)
    return False
