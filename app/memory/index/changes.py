"""What is different between files and index, and reading that (memory.md 3.2). Blocks; for threads."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import both
from app.memory.index.database import IndexUnavailableError
from app.memory.index.known_files import NEVER_NS, KnownFile
from app.memory.index.note_files import FileState, Found, NoteRules, folder_time, read_note

if TYPE_CHECKING:
    from app.memory.index.prepared import PreparedNote

RACY_NS = 2_000_000_000
"""A file that changed so shortly before it was read may change again without its time saying so: look twice."""

SKEW_NS = 3600 * 1_000_000_000
"""So far the clock of a drive in the network may be ahead of ours."""

MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Texts of more bytes do not go into one commit."""


@dataclass(frozen=True, slots=True)
class ReadNotes:
    """What came of reading some notes; ``left`` were not read because there is enough for one commit."""

    notes: list[PreparedNote] = field(default_factory=list)
    touched: dict[str, FileState] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def no_root(root: Path) -> IndexUnavailableError:
    """The error for a folder of notebooks that is not there now."""
    return IndexUnavailableError(both(f"日记目录 {root} 无法读取", f"the folder of notebooks, {root}, cannot be read"))


def settled_time(moment: int, now_ns: int) -> int:
    """The time of a change, unless it is so near that another one could have the same.

    One far in the future, as after a clock was set back, is as good as one of the past: its file is not read anew
    at every look.
    """
    return NEVER_NS if -SKEW_NS < now_ns - moment < RACY_NS else moment


def differences(found: Found, known: dict[str, KnownFile]) -> list[str]:
    """Files that are not as they were known: new and changed ones, newest first, then those that are gone."""
    changed = [path for path, state in found.files.items() if path not in known or known[path].state != state]
    changed.sort(key=lambda path: -found.files[path].mtime_ns)
    return [*changed, *(path for path in known if path not in found.files and found.knows(path))]


def changed_folders(root: Path, folders: dict[str, int]) -> tuple[list[str], list[str]]:
    """Of the known folders those that got or lost entries, and those that are gone."""
    changed: list[str] = []
    gone: list[str] = []
    for folder, moment in folders.items():
        try:
            if folder_time(root, folder) != moment:
                changed.append(folder)
        except (FileNotFoundError, NotADirectoryError):
            if folder:  # where the root itself is missing nothing is said about notes
                gone.append(folder)
        except OSError:
            continue  # the next look at all files tells
    return changed, gone


def read_notes(root: Path, paths: list[str], known: dict[str, KnownFile], rules: NoteRules, now_ns: int) -> ReadNotes:
    """Read files that are not as they are known, and make them ready. Takes turns with other threads."""
    # With it comes rjieba, which takes 30 MB: a home without notes does without.
    from app.memory.index.prepared import prepare

    read = ReadNotes()
    if not root.is_dir():
        raise no_root(root)
    size = 0
    for number, path in enumerate(paths):
        if size > MAX_BATCH_BYTES:
            read.left.extend(paths[number:])
            break
        before = known.get(path)
        note = read_note(root, path) if rules.wants_path(path) else None
        if note is None:
            if before is not None:
                read.gone.append(path)
            continue
        if note.unsettled:
            read.again.append(path)
            continue
        size += note.state.size
        state = FileState(note.state.size, settled_time(note.state.mtime_ns, now_ns))
        if before is not None and note.sha256 and before.sha256 == note.sha256:
            if before.state != state:
                read.touched[path] = state
            continue
        read.notes.append(prepare(path, replace(note, state=state), rules))
        time.sleep(0.0005)  # the others first: the event loop waits for the same lock
    return read
