"""Names of deletions in ``.vcp/trash``: the moment of each, so that they sort and grow old by themselves."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

MAX_SAME_TIMES = 1000
"""Deletions of one millisecond that get a name."""

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
