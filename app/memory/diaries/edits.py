"""Editing diaries by text: the first note that has it, the first place in it (memory.md 1.6, ``update``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.memory.diaries.files import DiaryError, lies_inside, replace_note
from app.memory.diaries.requests import MAX_CONTENT_BYTES
from app.protocol.diary import safe_folder, split_author

MIN_TARGET_UNITS = 15
"""Shortest text to look for, in UTF-16 units: a shorter one would too often be found in the wrong place."""

EXTENSIONS = (".txt", ".md")
MAX_FILES = 200_000


@dataclass(frozen=True, slots=True)
class Edit:
    """What to look for and what to put there; ``maid`` says where (blank: in all notebooks), ``folder`` beats it."""

    target: str
    replacement: str
    maid: str = ""
    folder: str = ""


def edit_diary(root: Path, edit: Edit) -> Path:
    """Carry out one edit and return the note that was changed.

    A folder that is named (``folder``, or ``[F]…`` in ``maid``) is the only one searched; a plain name stands for every
    notebook whose name begins with it. Notes are looked at in the order of their names; those that are too large or no
    UTF-8 are passed over and named when nothing was found. Raises DiaryError.
    """
    if len(edit.target.encode("utf-16-le", "replace")) // 2 < MIN_TARGET_UNITS:
        raise DiaryError(
            f"target 至少要有 {MIN_TARGET_UNITS} 个字符，才不会改错地方",
            f"target must have at least {MIN_TARGET_UNITS} characters, so that the right place is changed",
        )
    passed_over: list[str] = []
    for note in _notes(root, _notebooks(root, edit)):
        text = _read(note, passed_over)
        if text is None:
            continue
        changed = _changed(text, edit)
        if changed is None:
            continue
        if len(changed.encode("utf-8")) > MAX_CONTENT_BYTES:
            raise DiaryError(f"修改后的 {note.name} 太大", f"{note.name} would be too large after the change")
        if replace_note(note, text, changed):
            return note
        raise DiaryError(
            f"{note.name} 在此期间被改动，请重新读取后再改", f"{note.name} was changed meanwhile; read it again first"
        )
    raise DiaryError(
        f"没有日记包含这段 target，请照原文逐字填写{_named('；未能读取', passed_over)}",
        f"no note contains this target; copy it from the note letter by letter{_named('; not readable', passed_over)}",
    )


def _notebooks(root: Path, edit: Edit) -> list[Path]:
    bracketed = edit.maid.strip().startswith("[") and "]" in edit.maid
    named = edit.folder.strip() or (split_author(edit.maid)[0] if bracketed else "")
    if named or bracketed:
        folder = root / safe_folder(named)
        if not folder.is_dir() or not lies_inside(root, folder):
            raise DiaryError(f"没有名为 {folder.name!r} 的日记本", f"there is no notebook called {folder.name!r}")
        return [folder]
    prefix = safe_folder(edit.maid) if edit.maid.strip() else ""
    try:
        entries = sorted(root.iterdir())
    except FileNotFoundError:
        entries = []
    found = [entry for entry in entries if entry.name.startswith(prefix) and not entry.name.startswith(".")]
    folders = [entry for entry in found if entry.is_dir() and lies_inside(root, entry)]
    if not folders:
        raise DiaryError(f"没有名称以 {prefix!r} 开头的日记本", f"no notebook has a name that begins with {prefix!r}")
    return folders


def _notes(root: Path, folders: list[Path]) -> Iterator[Path]:
    seen = 0
    for folder in folders:
        for note in sorted(folder.iterdir()):
            seen += 1
            if seen > MAX_FILES:
                raise DiaryError(
                    f"日记超过 {MAX_FILES} 篇，请用 maid 指定日记本",
                    f"more than {MAX_FILES} notes; name a notebook in maid",
                )
            if note.suffix.lower() in EXTENSIONS and not note.name.startswith(".") and lies_inside(root, note):
                yield note


def _read(note: Path, passed_over: list[str]) -> str | None:
    try:
        if not note.is_file():
            return None
        if note.stat().st_size > MAX_CONTENT_BYTES:
            raise ValueError("too large")
        return note.read_bytes().decode("utf-8")
    except (OSError, ValueError):
        passed_over.append(f"{note.parent.name}/{note.name}")
        return None


def _changed(text: str, edit: Edit) -> str | None:
    if edit.target in text:
        return text.replace(edit.target, edit.replacement, 1)
    if "\r\n" in text:  # written on Windows, quoted by a model that knows only LF (P45)
        windows = edit.target.replace("\r\n", "\n").replace("\n", "\r\n")
        if windows in text:
            return text.replace(windows, edit.replacement.replace("\r\n", "\n").replace("\n", "\r\n"), 1)
    return None


def _named(label: str, names: list[str]) -> str:
    return f"{label}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}" if names else ""
