"""Editing diaries by text: the first note that has it, the first place in it (memory.md 1.6, ``update``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.memory.diaries.files import DiaryError, lies_inside, replace_note
from app.memory.diaries.nearest import Nearest
from app.memory.diaries.notebooks import is_note_name, resolve_notebook
from app.memory.diaries.permissions import NotPermittedError
from app.memory.diaries.requests import MAX_CONTENT_BYTES
from app.protocol.diary import safe_folder, split_author

MIN_TARGET_UNITS = 15
"""Shortest text to look for, in UTF-16 units: a shorter one would too often be found in the wrong place."""

MAX_FILES = 200_000

MAX_TRIES = 50
"""How often an edit is made anew because somebody else changed the note in that moment."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What to look for and what to put there; ``maid`` says where (blank: in all notebooks), ``folder`` beats it."""

    target: str
    replacement: str
    maid: str = ""
    folder: str = ""


def edit_diary(
    root: Path, edit: Edit, may_write: Callable[[str], bool] = lambda _notebook: True, *, nearest: bool = False
) -> Path:
    """Carry out one edit and return the note that was changed.

    A folder that is named (``folder``, or ``[F]…`` in ``maid``) is the only one searched; a plain name stands for every
    notebook whose name begins with it. Notebooks that ``may_write`` refuses are not searched. With ``nearest`` the
    error of an edit that finds nothing shows the passage that is most like ``target``. Raises DiaryError.
    """
    check_target(edit.target)
    folders = _notebooks(root, edit)
    allowed = [folder for folder in folders if may_write(folder.name)]
    if not allowed:
        names = ", ".join(folder.name for folder in folders[:5])
        raise NotPermittedError(f"不能修改日记本：{names}", f"these notebooks may not be changed: {names}")
    return edit_folders(root, allowed, edit.target, edit.replacement, nearest=nearest)


def check_target(target: str) -> None:
    """Raises DiaryError for a text that is too short to look for."""
    if len(target.encode("utf-16-le", "replace")) // 2 < MIN_TARGET_UNITS:
        raise DiaryError(
            f"target 至少要有 {MIN_TARGET_UNITS} 个字符，才不会改错地方",
            f"target must have at least {MIN_TARGET_UNITS} characters, so that the right place is changed",
        )


def edit_folders(root: Path, folders: Sequence[Path], target: str, replacement: str, *, nearest: bool = False) -> Path:
    """Replace the first occurrence of ``target`` in the first note of ``folders`` that has it.

    Notes are looked at in the order of their names; those that are too large or no UTF-8 are passed over and named when
    nothing was found. An edit that meets another one is made anew on its result. Raises DiaryError.
    """
    passed_over: list[str] = []
    alike = Nearest(target) if nearest else None
    for note in _notes(root, folders):
        if _edit_note(note, target, replacement, passed_over, alike):
            return note
    found = "" if alike is None else alike.report()
    raise DiaryError(
        f"没有日记包含这段 target，请照原文逐字填写{_named('；未能读取', passed_over)}",
        f"no note contains this target; copy it from the note letter by letter{_named('; not readable', passed_over)}"
        + found,
    )


def _edit_note(note: Path, target: str, replacement: str, passed_over: list[str], alike: Nearest | None) -> bool:
    """Whether the note had the target, which is then replaced."""
    for _ in range(MAX_TRIES):
        text = _read(note, passed_over)
        if text is None:
            return False
        changed = _changed(text, target, replacement)
        if changed is None:
            if alike is not None:
                alike.look(f"{note.parent.name}/{note.name}", text)
            return False
        if len(changed.encode("utf-8")) > MAX_CONTENT_BYTES:
            raise DiaryError(f"修改后的 {note.name} 太大", f"{note.name} would be too large after the change")
        if replace_note(note, text, changed):
            return True
    raise DiaryError(
        f"{note.name} 不断被改动，请重新读取后再改", f"{note.name} is changed all the time; read it again first"
    )


def _notebooks(root: Path, edit: Edit) -> list[Path]:
    bracketed = edit.maid.strip().startswith("[") and "]" in edit.maid
    named = edit.folder.strip() or (split_author(edit.maid)[0] if bracketed else "")
    if named or bracketed:
        folder = root / resolve_notebook(root, named)
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
    if not folders and prefix:
        resolved = root / resolve_notebook(root, edit.maid)
        folders = [resolved] if resolved.is_dir() and lies_inside(root, resolved) else []
    if not folders:
        raise DiaryError(f"没有名称以 {prefix!r} 开头的日记本", f"no notebook has a name that begins with {prefix!r}")
    return folders


def _notes(root: Path, folders: Sequence[Path]) -> Iterator[Path]:
    seen = 0
    for folder in folders:
        for note in sorted(folder.iterdir()):
            seen += 1
            if seen > MAX_FILES:
                raise DiaryError(
                    f"日记超过 {MAX_FILES} 篇，请用 maid 指定日记本",
                    f"more than {MAX_FILES} notes; name a notebook in maid",
                )
            if is_note_name(note.name) and lies_inside(root, note):
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


def _changed(text: str, target: str, replacement: str) -> str | None:
    if target in text:
        return text.replace(target, replacement, 1)
    if "\r\n" in text:  # written on Windows, quoted by a model that knows only LF (P45)
        windows = target.replace("\r\n", "\n").replace("\n", "\r\n")
        if windows in text:
            return text.replace(windows, replacement.replace("\r\n", "\n").replace("\n", "\r\n"), 1)
    return None


def _named(label: str, names: list[str]) -> str:
    return f"{label}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}" if names else ""
