"""Listing, merging and archiving of notes: the tool DailyNoteManager (memory.md 1.7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from app.config.durable import create_atomic
from app.memory.diaries.commands import read_draft
from app.memory.diaries.files import NOTE_MODE, DiaryError, lies_inside, move_note, notebook_folder
from app.memory.diaries.notebooks import NoSuchNoteError, find_note, note_files, resolve_notebook
from app.memory.diaries.permissions import Permissions
from app.memory.diaries.requests import MAX_CONTENT_BYTES, DiarySettings, text_argument
from app.memory.diaries.writing import store
from app.protocol.diary import split_author
from app.protocol.diary_head import day_in, read_note_head

ARCHIVE = "已整理"
"""Where the notes go that were merged into another one."""

SAVED = "已整理日记"
"""Where whole files of the older text form go."""

MAX_LISTED_CHARS = 400_000
"""Characters of one list; the notes behind them are named only."""

MAX_SOURCES = 500
MAX_BLOCKS = 500
MAX_SAME_NAMES = 1000

_FILE_LINE = re.compile(r"[0-9]{4}\.[0-9]{2}\.[0-9]{2}(?:\.[0-9]{1,6})?\.txt")


@dataclass(frozen=True, slots=True)
class Organized:
    """What came of ``organize``: the new note, the sources as they are named now, and those that stayed and why."""

    note: Path
    moved: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def list_notes(arguments: Mapping[str, object], root: Path, permissions: Permissions) -> str:
    """The notes of ``folder`` from ``startDate`` to ``endDate``, each under its address; raises DiaryError.

    A note's day is that of its file name, else of its first line. Without a date the range is open at that end.
    """
    name = text_argument(arguments, "folder", "Folder").strip()
    if not name:
        raise DiaryError("缺少参数 folder（日记本）", "folder is missing: the notebook")
    first = _day(arguments, "startDate", "StartDate", "start_date")
    last = _day(arguments, "endDate", "EndDate", "end_date")
    if first is not None and last is not None and first > last:
        raise DiaryError(f"起始日期 {first} 晚于结束日期 {last}", f"startDate {first} lies after endDate {last}")
    notebook = resolve_notebook(root, name)
    folder = root / notebook
    if not folder.is_dir() or not lies_inside(root, folder):
        raise NoSuchNoteError(f"没有日记本 {notebook!r}", f"there is no notebook {notebook!r}")
    permissions.check_read(agent_of(arguments), notebook)
    found, parts, left = 0, [], MAX_LISTED_CHARS
    for entry in note_files(folder):
        text = read_whole(Path(entry.path))
        day = day_in(entry.name) or read_note_head(text or "", entry.name).day
        if (first or last) and (day is None or (first and day < first) or (last and day > last)):
            continue
        found += 1
        shown = "[未能读取 / cannot be read]" if text is None else text.rstrip()
        if len(shown) > left:
            shown = "[内容过长，请缩小日期范围 / too long: ask for fewer days]"
        left -= len(shown)
        parts.append(f"--- [{notebook}/{entry.name}] ---\n{shown}\n")
    span = f"{first or '…'} ~ {last or '…'}"
    if not found:
        return f"「{notebook}」在 {span} 内没有日记 / no notes in {notebook} from {span}"
    return f"「{notebook}」{span}：{found} 篇日记 / {found} notes\n\n" + "\n".join(parts).rstrip()


def organize(arguments: Mapping[str, object], settings: DiarySettings, permissions: Permissions) -> Organized:
    """Write one merged note and move the notes that ``urls`` names into the archive. Raises DiaryError.

    Everything is checked before anything is written, the merged note is on the disk before a source is moved, and a
    source that cannot be moved stays where it is.
    """
    root = settings.root
    urls = addresses(arguments)
    sources = {url: find_note(root, url) for url in urls}
    draft = read_draft(arguments, root)
    if draft.tag_line is None:
        raise DiaryError(
            "合并后的日记缺少标签：请在 Content 最后一行写“Tag: …”，或用参数 Tag 给出。什么都没有改动",
            "the merged note has no tags: end Content with a line 'Tag: word, word', or give them as Tag. "
            "Nothing was changed",
        )
    permissions.check_write(draft.signature, draft.notebook)
    for source in sources.values():
        permissions.check_write(draft.signature, source.relative_to(root).parts[0])
    archive = notebook_folder(root, ARCHIVE)
    note = store(draft, settings)
    moved: list[str] = []
    failed: list[tuple[str, str]] = []
    for url, source in sources.items():
        if source.parent == archive:
            moved.append(f"{ARCHIVE}/{source.name}")
            continue
        try:
            moved.append(f"{ARCHIVE}/{move_to(source, archive).name}")
        except FileNotFoundError:
            failed.append((url, "已不存在 / gone meanwhile"))
        except (OSError, DiaryError) as error:
            failed.append((url, str(error)))
    return Organized(note, tuple(moved), tuple(failed))


def move_to(source: Path, folder: Path) -> Path:
    """Move a note into another folder under its own name, or that name with ``_2``, ``_3`` … where it is taken."""
    for number in range(1, MAX_SAME_NAMES + 1):
        end = "" if number == 1 else f"_{number}"
        stem = source.stem.encode("utf-8")[: 255 - len(end) - len(source.suffix)].decode("utf-8", "ignore")
        target = folder / f"{stem}{end}{source.suffix}"
        if move_note(source, target):
            return target
    raise DiaryError(
        f"{folder.name} 中已有 {MAX_SAME_NAMES} 个同名文件", f"{folder.name} has {MAX_SAME_NAMES} files of this name"
    )


def save_blocks(text: str, root: Path) -> tuple[list[str], list[str]]:
    """Write the files of the older text form: a line ``YYYY.MM.DD.txt`` or ``YYYY.MM.DD.N.txt``, then its content.

    Returns the names of the files that were written, and warnings. A name that is taken by another text gets ``_2``,
    ``_3`` …: nothing is overwritten. Raises DiaryError when there is no such line.
    """
    blocks = _blocks(text)
    if not blocks:
        raise DiaryError(
            "command 中没有“YYYY.MM.DD.txt”这样的文件名行",
            "command has no line with a file name such as YYYY.MM.DD.txt",
        )
    if len(blocks) > MAX_BLOCKS:
        raise DiaryError(f"一次最多 {MAX_BLOCKS} 篇", f"{MAX_BLOCKS} notes at a time are the most")
    saved: list[str] = []
    warnings: list[str] = []
    for name, content in blocks:
        if not content:
            warnings.append(f"{name} 没有内容，未保存 / {name} is empty and was not saved")
        elif len(content.encode("utf-8")) > MAX_CONTENT_BYTES:
            warnings.append(f"{name} 太大，未保存 / {name} is too large and was not saved")
        else:
            saved.append(_save(notebook_folder(root, SAVED), name, content).name)
    return saved, warnings


def _save(folder: Path, name: str, content: str) -> Path:
    stem, data = name.removesuffix(".txt"), content.encode("utf-8")
    for number in range(1, MAX_SAME_NAMES + 1):
        target = folder / (name if number == 1 else f"{stem}_{number}.txt")
        if create_atomic(target, data, NOTE_MODE) or (target.is_file() and target.read_bytes() == data):
            return target
    raise DiaryError(f"{name} 的名称都已被占用", f"all names for {name} are taken")


def _blocks(text: str) -> list[tuple[str, str]]:
    blocks: list[tuple[str, list[str]]] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if _FILE_LINE.fullmatch(line.strip()):
            blocks.append((line.strip(), []))
        elif blocks:
            blocks[-1][1].append(line)
    return [(name, "\n".join(lines).strip()) for name, lines in blocks]


def addresses(arguments: Mapping[str, object], *names: str) -> tuple[str, ...]:
    """The notes that a call names, one on each line, each once; raises DiaryError for none or too many."""
    text = text_argument(arguments, *(names or ("urls", "Urls", "URL", "url")))
    found = tuple(dict.fromkeys(line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()))
    if not found:
        raise DiaryError("缺少参数 urls：每行一个“日记本/文件名”", "urls is missing: one notebook/file on each line")
    if len(found) > MAX_SOURCES:
        raise DiaryError(f"一次最多 {MAX_SOURCES} 篇", f"{MAX_SOURCES} notes at a time are the most")
    return found


def agent_of(arguments: Mapping[str, object]) -> str:
    """The name of the agent that asks, empty when it does not say."""
    return split_author(text_argument(arguments, "maid", "maidName", "Maid", "MAID"))[1]


def read_whole(path: Path) -> str | None:
    """A note's text; None for one that is too large or cannot be read."""
    try:
        if path.stat().st_size > MAX_CONTENT_BYTES:
            return None
        return path.read_bytes().decode("utf-8-sig", "replace").replace("\r\n", "\n")
    except OSError:
        return None


def _day(arguments: Mapping[str, object], *names: str) -> date | None:
    text = text_argument(arguments, *names).strip()
    if not text:
        return None
    day = day_in(text)
    if day is None:
        raise DiaryError(
            f"{names[0]} 不是日期：{text[:40]!r}", f"{names[0]} is no date such as 2026-04-18: {text[:40]!r}"
        )
    return day


def moved_report(done: Organized) -> str:
    """What a model reads after ``organize``."""
    lines = [
        f"合并后的日记已保存 / merged note saved: {done.note}",
        f"已移到「{ARCHIVE}」/ moved to {ARCHIVE}: {len(done.moved)}",
    ]
    if done.failed:
        lines.append(f"未能移动 / not moved: {len(done.failed)}")
        lines += [f"  {url}: {why}" for url, why in done.failed]
    return "\n".join(lines)
