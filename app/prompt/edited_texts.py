"""The text files that people edit for prompts, ``Agent/`` and ``TVStxt/``: listed, saved, renamed, deleted with undo.

A path is one below its folder, with ``/`` (or ``\\``, P61) between the parts. None leads out of the folder, neither by
``..`` nor by a link (vcp-core 8.1 BUG, B3). What is deleted waits in ``.vcp/trash/<folder>/<time>/<path>``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.config.durable import create_atomic, remove_atomic, sync_folder
from app.config.edit_lock import edit_lock
from app.config.edited_file import LOCK_SECONDS, EditedFile, FileTooLargeError, read_edited, write_edited
from app.config.file_lock import held
from app.config.trash_time import DUE_FILE, deleted_at, new_deletion, was_due
from app.errors import BadRequestError, NotFoundError, VcpError, both
from app.extend import Json
from app.prompt.files import MAX_FILE_BYTES, contained

TRASH_FOLDER = Path(".vcp", "trash")

MAX_FILES = 5_000
"""Files of one folder that are listed."""

MAX_DEPTH = 16
MAX_PART_BYTES = 255
MAX_PATH_CHARS = 1_000
MAX_LISTED = 200
"""Deletions that are listed."""

log = logging.getLogger(__name__)

_CONTROL = re.compile("[\x00-\x1f\x7f]")


class FileExistsAlreadyError(VcpError):
    """A file of this name is there."""

    status = 409
    code = "exists"


@dataclass(frozen=True, slots=True)
class TextFileLine:
    """One file of a list: its path below the folder, its size in bytes, when it was changed (seconds)."""

    path: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class TextFileList:
    """The files by path.

    Not ``complete`` when there are more than ``MAX_FILES``, or folders that are too deep or cannot be read.
    """

    files: tuple[TextFileLine, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class DeletedText:
    """A file in the trash that can come back."""

    id: str
    path: str


class EditedTexts:
    """The files of one folder of a home; all methods block.

    ``suffixes`` are the endings that files may have, in lower case; without ``nested`` there are no folders in it.
    """

    def __init__(self, home: Path, folder: str, suffixes: Sequence[str], *, nested: bool) -> None:
        self.root = home / folder
        self._home = home
        self._suffixes = tuple(suffixes)
        self._nested = nested
        self._trash = home / TRASH_FOLDER / folder

    def files(self) -> TextFileList:
        """All files of now; hidden ones, and links that lead elsewhere, are left out. Raises OSError."""
        found: list[TextFileLine] = []
        waiting = [("", 0)]
        complete = True
        while waiting:
            folder, depth = waiting.pop()
            try:
                entries = list(os.scandir(self.root / folder))
            except FileNotFoundError:
                continue
            except OSError as error:
                if not folder:
                    raise
                log.warning("%s/%s cannot be listed: %s", self.root.name, folder, error.strerror or error)
                complete = False
                continue
            for entry in entries:
                name = f"{folder}{entry.name}"
                if entry.name.startswith(".") or (entry.is_symlink() and not self._inside(name)):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if self._nested:
                        complete = complete and depth < MAX_DEPTH
                        waiting += [(f"{name}/", depth + 1)] if depth < MAX_DEPTH else []
                elif name.lower().endswith(self._suffixes):
                    if len(found) >= MAX_FILES:
                        return TextFileList(tuple(sorted(found, key=lambda line: line.path)), complete=False)
                    with contextlib.suppress(OSError):  # gone meanwhile, or a link that leads in a circle
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            found.append(TextFileLine(name, status.st_size, status.st_mtime))
        return TextFileList(tuple(sorted(found, key=lambda line: line.path)), complete)

    def read(self, path: str) -> EditedFile:
        """A file's text and version; raises BadRequestError, NotFoundError, FileTooLargeError and OSError."""
        try:
            return read_edited(self._path(path), MAX_FILE_BYTES)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise _missing(path) from None

    def exists(self, path: str) -> bool:
        """Whether there is such a file; raises BadRequestError for what can be none."""
        return self._path(path).is_file()

    def write(self, path: str, text: str, expected: str | None) -> str:
        """Replace or make a file, with its folders, and return its version; raises as ``write_edited``."""
        target = self._path(path)
        _check_size(target, text)
        if target.is_dir():
            raise BadRequestError(both(f"{path} 是文件夹", f"{path} is a folder"))
        self._make_folder(target)
        return write_edited(target, text, expected, edit_lock(self._home))

    def create(self, path: str, text: str = "") -> None:
        """Make a new file, with its folders; FileExistsAlreadyError when there is one, BadRequestError, OSError."""
        target = self._path(path)
        _check_size(target, text)
        self._make_folder(target)
        if not create_atomic(target, text.encode("utf-8", "replace")):
            raise _taken(path)

    def rename(self, path: str, to: str) -> None:
        """Give a file another path; nothing is overwritten. Raises as ``read`` and ``create``."""
        source, target = self._path(path), self._path(to)
        if not source.is_file():
            raise _missing(path)
        self._make_folder(target)
        with held(edit_lock(self._home), LOCK_SECONDS):
            if target.exists() and not (source.exists() and target.samefile(source)):
                raise _taken(to)
            source.rename(target)
            sync_folder(target.parent)
            sync_folder(source.parent)

    def delete(self, path: str, now: datetime, keep_days: int) -> str:
        """Move a file to the trash and return the deletion's name; those older than ``keep_days`` go for good.

        With ``keep_days`` 0 this one does too, and the name is empty. Raises as ``read``.
        """
        source = self._path(path)
        if not source.is_file():
            raise _missing(path)
        if keep_days == 0:
            with held(edit_lock(self._home), LOCK_SECONDS):
                remove_atomic(source)
            return ""
        name = new_deletion(self._trash, now)
        place = self._trash / name / source.relative_to(os.path.realpath(self.root))
        place.parent.mkdir(parents=True, exist_ok=True)
        with held(edit_lock(self._home), LOCK_SECONDS):
            _move(source, place)
        self._sweep(now, keep_days)
        return name

    def restore(self, deletion: str) -> str:
        """Bring a deleted file back and return its path; raises NotFoundError, FileExistsAlreadyError and OSError."""
        kept = self._kept(deletion) if deleted_at(deletion) is not None else None
        if kept is None:
            raise NotFoundError(both("回收站中没有它", "nothing was deleted under this name"))
        target = self._path(kept)
        self._make_folder(target)
        with held(edit_lock(self._home), LOCK_SECONDS):
            if target.exists():
                raise _taken(kept)
            _move(self._trash / deletion / kept, target)
        shutil.rmtree(self._trash / deletion, ignore_errors=True)
        return kept

    def trash(self) -> list[DeletedText]:
        """What can be brought back, newest first, at most ``MAX_LISTED``."""
        names = sorted(self._deletions(), reverse=True)[:MAX_LISTED]
        return [DeletedText(name, kept) for name in names if (kept := self._kept(name)) is not None]

    def _path(self, path: str) -> Path:
        parts = path.replace("\\", "/").split("/")
        deep = len(parts) > (MAX_DEPTH if self._nested else 1)
        if deep or len(path) > MAX_PATH_CHARS or any(not _is_part(part) for part in parts):
            raise BadRequestError(both("文件名不可用", "this is no usable file name"))
        if not parts[-1].lower().endswith(self._suffixes) or parts[-1].lower() in self._suffixes:
            endings = " / ".join(self._suffixes)
            raise BadRequestError(both(f"文件名应以 {endings} 结尾", f"a file name ends in {endings}"))
        try:
            return contained(self.root, path)
        except PermissionError:
            raise BadRequestError(
                both(f"路径超出 {self.root.name}/", f"the path leads out of {self.root.name}/")
            ) from None
        except OSError as error:
            raise BadRequestError(f"{both('文件名不可用', 'this is no usable file name')}: {error.strerror}") from None

    def _inside(self, name: str) -> bool:
        try:
            contained(self.root, name)
        except OSError:
            return False
        return True

    def _make_folder(self, target: Path) -> None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise BadRequestError(
                both("同名文件占用了文件夹的位置", "a file stands where the folder would be")
            ) from None

    def _deletions(self) -> list[str]:
        try:
            return [entry.name for entry in self._trash.iterdir() if deleted_at(entry.name) is not None]
        except FileNotFoundError:
            return []

    def _kept(self, deletion: str) -> str | None:
        """The path of the file that was deleted; None when it is not there any more."""
        folder = self._trash / deletion
        for parent, _, names in os.walk(folder):
            kept = [name for name in names if name != DUE_FILE]
            if kept:
                return Path(parent, kept[0]).relative_to(folder).as_posix()
        return None

    def _sweep(self, now: datetime, keep_days: int) -> None:
        """Remove for good what has been too old since an earlier sweep, a day ago or more."""
        limit = now.astimezone(UTC) - timedelta(days=keep_days)
        for name in self._deletions():
            moment = deleted_at(name)
            if moment is not None and moment < limit:
                try:
                    if not was_due(self._trash / name / DUE_FILE, now.astimezone(UTC)):
                        continue
                    shutil.rmtree(self._trash / name)
                except OSError as error:
                    log.warning("an old deleted text, %s, cannot be removed: %s", name, error.strerror or error)


def folder_structure(paths: Sequence[str]) -> Mapping[str, Json]:
    """The paths as a tree: ``{name: {type: folder, children}}`` and ``{name: {type: file, path}}`` (8.2)."""
    tree: dict[str, Json] = {}
    for path in paths:
        here = tree
        *folders, name = path.split("/")
        for folder in folders:
            here = here.setdefault(folder, {"type": "folder", "children": {}})["children"]
        here[name] = {"type": "file", "path": path}
    return tree


def _is_part(part: str) -> bool:
    return (
        bool(part.strip())
        and not part.startswith(".")
        and _CONTROL.search(part) is None
        and len(part.encode("utf-8", "replace")) <= MAX_PART_BYTES
    )


def _check_size(target: Path, text: str) -> None:
    if len(text.encode("utf-8", "replace")) > MAX_FILE_BYTES:
        raise FileTooLargeError(
            both(
                f"{target.name} 超过 {MAX_FILE_BYTES} 字节",
                f"{target.name} would have more than {MAX_FILE_BYTES} bytes",
            )
        )


def _move(source: Path, target: Path) -> None:
    """Also between two file systems: the folder may be a mount of its own."""
    if not create_atomic(target, source.read_bytes()):
        raise FileExistsError(f"{target.name} exists")
    shutil.copystat(source, target)
    remove_atomic(source)


def _missing(path: str) -> NotFoundError:
    return NotFoundError(both(f"文件 {path[:200]} 不存在", f"there is no file {path[:200]}"))


def _taken(path: str) -> FileExistsAlreadyError:
    return FileExistsAlreadyError(both(f"文件 {path[:200]} 已存在", f"a file {path[:200]} exists already"))
