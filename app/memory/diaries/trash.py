"""Where deleted notes wait for somebody who wants them back: ``.vcp/trash/dailynote/<time>/<notebook>/<file>``."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.config.trash_time import DUE_FILE, MAX_SAME_TIMES, deleted_at, new_deletion, was_due
from app.memory.diaries.files import DiaryError, lies_inside, move_note
from app.memory.diaries.notebooks import NoSuchNoteError, is_note_name, walk_notes

log = logging.getLogger(__name__)

TRASH_FOLDER = Path(".vcp") / "trash" / "dailynote"
MAX_LISTED = 1000


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was deleted at one time; ``notes`` are notebook/file."""

    id: str
    notes: tuple[str, ...]


class Trash:
    """The trash of a home whose notebooks lie in ``root``. Methods block."""

    def __init__(self, home: Path, root: Path) -> None:
        self._folder = home / TRASH_FOLDER
        self._root = root

    def begin(self, now: datetime) -> str:
        """A new id for notes that are deleted together; its folder is made."""
        try:
            return new_deletion(self._folder, now)
        except FileExistsError:
            raise DiaryError("请稍后再删除", "too many deletions at this moment: try again") from None

    def put(self, trash_id: str, note: Path) -> None:
        """Move a note into the trash; raises OSError (FileNotFoundError: it is gone) and DiaryError."""
        folder = self._folder / trash_id / note.relative_to(self._root).parent
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, MAX_SAME_TIMES + 1):
            name = note.name if number == 1 else f"{note.stem[:200]}_{number}{note.suffix}"
            if move_note(note, folder / name):
                return
        raise DiaryError(f"{note.name} 已在回收站中", f"{note.name} is in the trash already")

    def end(self, trash_id: str, *, keep: bool = True) -> bool:
        """Forget an id that got nothing, or that nobody wants to ``keep``; returns whether it can be restored."""
        if keep and self._notes(trash_id):
            return True
        shutil.rmtree(self._folder / trash_id, ignore_errors=True)
        return False

    def deletions(self) -> list[Deleted]:
        """What can be restored, newest first, at most ``MAX_LISTED``."""
        return [Deleted(name, self._notes(name)) for name in self._ids()[:MAX_LISTED]]

    def restore(self, trash_id: str, wanted: Iterable[str] | None) -> tuple[list[str], list[tuple[str, str]]]:
        """Put notes of one deletion (None: all) back; returns those that came back, and those that did not and why.

        Nothing is overwritten. Raises NoSuchNoteError for an unknown id.
        """
        if deleted_at(trash_id) is None or not (self._folder / trash_id).is_dir():
            raise NoSuchNoteError(f"回收站中没有 {trash_id[:60]!r}", f"nothing was deleted as {trash_id[:60]!r}")
        there = self._notes(trash_id)
        restored: list[str] = []
        failed: list[tuple[str, str]] = []
        for name in there if wanted is None else dict.fromkeys(wanted):
            if name not in there:
                failed.append((name, "回收站中没有 / not in the trash"))
                continue
            target = self._root / name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if not lies_inside(self._root, target.parent):
                    raise DiaryError("日记本是链接", "the notebook is a link that leads elsewhere")
                if move_note(self._folder / trash_id / name, target):
                    restored.append(name)
                else:
                    failed.append((name, "目标已存在 / a note of this name is there"))
            except (OSError, DiaryError) as error:
                failed.append((name, str(error)))
        self.end(trash_id)
        return restored, failed

    def sweep(self, now: datetime, days: int) -> int:
        """Remove for good what was deleted more than ``days`` days ago; returns how many deletions went.

        The first sweep that finds one due notes when that was; one that comes ``GRACE`` later removes it.
        """
        limit = now.astimezone(UTC) - timedelta(days=days)
        gone = 0
        for name in self._ids():
            moment = deleted_at(name)
            if moment is not None and moment < limit:
                try:
                    if days > 0 and not was_due(self._folder / name / DUE_FILE, now.astimezone(UTC)):
                        continue
                    shutil.rmtree(self._folder / name)
                    gone += 1
                except OSError as error:
                    log.warning("old deleted notes in %s cannot be removed: %s", name, error.strerror or error)
        return gone

    def _ids(self) -> list[str]:
        try:
            names = [entry.name for entry in self._folder.iterdir() if deleted_at(entry.name) is not None]
        except FileNotFoundError:
            return []
        return sorted(names, reverse=True)

    def _notes(self, trash_id: str) -> tuple[str, ...]:
        folder = self._folder / trash_id
        return tuple(path.relative_to(folder).as_posix() for path in walk_notes(folder) if is_note_name(path.name))
