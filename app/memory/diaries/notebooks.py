"""Notebooks and the notes in them: which there are, which one is meant, and nothing outside (memory.md 1.1; B3)."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from app.memory.diaries.files import DiaryError, lies_inside
from app.protocol.blanks import BLANKS
from app.protocol.diary import safe_folder

EXTENSIONS = (".txt", ".md")

MAX_NOTEBOOKS = 10_000
MAX_NOTES = 200_000
"""Notes of all notebooks that are looked at."""

_ADDRESSED = "日记本"
"""What people say behind a notebook's name: 公共日记本 is the notebook 公共."""


class NoSuchNoteError(DiaryError):
    """There is no such notebook or note."""

    status = 404
    code = "not_found"


class PathRefusedError(DiaryError):
    """A name that cannot be one of a notebook or note, or that leads elsewhere."""

    status = 403
    code = "forbidden_path"


def is_note_name(name: str) -> bool:
    """Whether a file of this name is a note: ``.txt`` or ``.md`` in any case, not hidden."""
    return name.lower().endswith(EXTENSIONS) and not name.startswith(".")


def notebooks(root: Path) -> list[str]:
    """The names of all notebooks, in order; none when there is no diary folder. Links and hidden folders are none."""
    try:
        with os.scandir(root) as entries:
            found = [entry.name for entry in entries if not entry.name.startswith(".") and _is_real_folder(entry)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found)[:MAX_NOTEBOOKS]


def _is_real_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def note_files(folder: Path) -> list[os.DirEntry[str]]:
    """The notes directly in a folder in the order of their names; links are none. Raises OSError."""
    with os.scandir(folder) as entries:
        return sorted(
            (entry for entry in entries if is_note_name(entry.name) and entry.is_file(follow_symlinks=False)),
            key=lambda entry: entry.name,
        )[:MAX_NOTES]


def resolve_notebook(root: Path, name: str) -> str:
    """The notebook that somebody means who writes to ``name``; a new one may come out.

    A notebook of exactly this name counts first. ``公共日记本`` is 公共. A notebook whose name differs only in case,
    width or blanks is the same one. Names that merely contain each other are different notebooks.
    """
    exact = safe_folder(name)
    if (root / exact).is_dir():
        return exact
    short = name.strip(BLANKS).removesuffix(_ADDRESSED).strip(BLANKS)
    wanted = safe_folder(short) if short else exact
    if (root / wanted).is_dir():
        return wanted
    folded = _fold(wanted)
    return next((known for known in notebooks(root) if _fold(known) == folded), wanted)


def _fold(name: str) -> str:
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def check_name(name: str) -> str:
    """One path component of our own kind; PathRefusedError for what could be anything else (B3)."""
    bad = not name or name in (".", "..") or name.startswith(".") or len(name.encode("utf-8", "replace")) > 255
    if bad or any(char in "/\\\0" or char < " " for char in name):
        raise PathRefusedError(f"名称不被接受：{name[:60]!r}", f"a name that is not taken: {name[:60]!r}")
    return name


def existing_notebook(root: Path, name: str) -> Path:
    """The folder of a notebook that exists; a link is refused. Raises NoSuchNoteError, PathRefusedError."""
    folder = root / check_name(name)
    try:
        mode = folder.lstat().st_mode
    except (OSError, ValueError):
        mode = 0
    if stat.S_ISLNK(mode):
        raise PathRefusedError(f"日记本 {name!r} 是链接", f"notebook {name!r} is a link")
    if not stat.S_ISDIR(mode):
        raise NoSuchNoteError(f"没有日记本 {name!r}", f"Folder {name!r} not found")
    return folder


def note_path(folder: Path, file: str) -> Path:
    """Where a note of this name lies or would lie in a notebook; links, folders, pipes are refused (PathRefusedError)."""
    if not is_note_name(check_name(file)):
        raise PathRefusedError(
            f"{file[:60]!r} 不是日记文件（.txt 或 .md）", f"{file[:60]!r} is no note: .txt and .md are"
        )
    path = folder / file
    try:
        plain = stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        plain = True  # nothing is there yet, or nothing can be
    if not plain:
        raise PathRefusedError(f"{file!r} 不是普通文件", f"{file!r} is a link, or no file at all")
    return path


def find_note(root: Path, address: str) -> Path:
    """The note at ``notebook/file`` below the diary root, as lists of notes show it; folders inside are allowed.

    Raises PathRefusedError and NoSuchNoteError.
    """
    parts = address.strip(BLANKS).replace("\\", "/").removeprefix("dailynote/").split("/")
    if len(parts) < 2:
        raise PathRefusedError(
            f"日记的地址应为“日记本/文件名”：{address[:80]!r}", f"a note is named as notebook/file: {address[:80]!r}"
        )
    folder = existing_notebook(root, parts[0])
    for part in parts[1:-1]:
        folder = existing_notebook(folder, part)
    path = note_path(folder, parts[-1])
    if not path.is_file() or not lies_inside(root, path):
        raise NoSuchNoteError(f"没有日记 {address[:120]!r}", f"there is no note {address[:120]!r}")
    return path


def walk_notes(root: Path, only: str = "") -> Iterator[Path]:
    """All notes of one notebook or of all, folders inside included, at most ``MAX_NOTES``; unreadable folders are
    passed over.
    """
    left = MAX_NOTES
    waiting = [root / name for name in reversed([only] if only else notebooks(root))]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)
        except OSError:
            continue
        waiting.extend(Path(entry.path) for entry in reversed(found) if _is_real_folder(entry))
        for entry in found:
            if is_note_name(entry.name) and entry.is_file(follow_symlinks=False):
                if left == 0:
                    return
                left -= 1
                yield Path(entry.path)
