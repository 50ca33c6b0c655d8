"""Floors that were deleted from posts, one small file each, until they are too old (``.vcp/trash/forum/``)."""

from __future__ import annotations

import json
import logging
import re
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.config.durable import create_atomic
from app.config.small_file import read_small
from app.config.trash_time import was_due
from app.protocol.forum import is_uid

log = logging.getLogger(__name__)

FOLDER = Path(".vcp") / "trash" / "forum"
MAX_KEPT = 2000
"""Deleted floors that are kept; the oldest go first."""

MAX_FILE_BYTES = 8 * 1024 * 1024
_ID = re.compile(r"floor-([0-9]{13})-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class DeletedFloor:
    """A floor as it was; ``place`` counts from 1."""

    uid: str
    place: int
    author: str
    at: str
    text: str


class FloorTrash:
    """The deleted floors of a home. Methods block."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def put(self, floor: DeletedFloor, now: datetime) -> str:
        """Keep a floor; returns its id. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"floor-{int(now.timestamp() * 1000):013d}-{secrets.token_hex(6)}"
        create_atomic(self._path(name), json.dumps(asdict(floor)).encode(), 0o600)
        return name

    def find(self, trash_id: str) -> DeletedFloor | None:
        """The floor of an id, None when there is none, or its file is damaged. Raises OSError."""
        if _ID.fullmatch(trash_id) is None:
            return None
        try:
            value = json.loads(read_small(self._path(trash_id), MAX_FILE_BYTES))
            floor = DeletedFloor(**value)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            log.warning("the deleted floor %s cannot be read: %s", trash_id, error)
            return None
        texts = (floor.uid, floor.author, floor.at, floor.text)
        sound = isinstance(floor.place, int) and all(isinstance(text, str) for text in texts) and is_uid(floor.uid)
        return floor if sound else None

    def forget(self, trash_id: str) -> None:
        """Keep the floor no longer. Raises OSError."""
        self._path(trash_id).unlink(missing_ok=True)
        self._path(trash_id).with_suffix(".due").unlink(missing_ok=True)

    def sweep(self, now: datetime, days: int) -> None:
        """Remove what is older than ``days`` days, or one too many. What cannot be removed is said in the log.

        The first sweep that finds a floor too old notes when that was; one that comes ``GRACE`` later removes it.
        """
        try:
            names = sorted(entry.stem for entry in self._folder.iterdir() if entry.suffix == ".json")
        except FileNotFoundError:
            return
        names = [name for name in names if _ID.fullmatch(name)]
        moment = now.astimezone(UTC)
        limit = (moment - timedelta(days=days)).timestamp() * 1000
        for place, name in enumerate(names):
            try:
                old = int(name.split("-")[1]) < limit and (
                    days <= 0 or was_due(self._path(name).with_suffix(".due"), moment)
                )
                if old or place < len(names) - MAX_KEPT:
                    self.forget(name)
            except OSError as error:
                log.warning("the deleted floor %s cannot be removed: %s", name, error.strerror or error)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
