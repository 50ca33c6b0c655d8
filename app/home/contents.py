"""Which files of an installation are worth keeping: what people wrote, what is configured, what cannot be made again.

Left out is what can be: caches, logs, environments of plugins, search indexes (their contents lie in the SQLite
stores), and pictures and served files unless they are asked for, since they are large.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.config.edit_lock import LOCK_FILE as EDIT_LOCK
from app.config.home_folders import NOTEBOOKS
from app.config.snapshot import CONFIG_FILE
from app.errors import both
from app.home.lock import LOCK_FILE, OWNER_FILE, STATE_FOLDER
from app.hub.nodes.key_file import LOCK_FILE as NODE_KEYS_LOCK

REPLACED_FOLDER = "replaced"
"""Below ``.vcp``: what a restore replaced. It is no part of the installation."""

_FOLDERS = (
    STATE_FOLDER,
    "Agent",
    "Plugin",
    "TVStxt",
    "ToolConfigs",
    "VCPAsyncResults",
    "VCPTimedContacts",
    "VCPTimedResults",
    "VectorStore",
    NOTEBOOKS,
    "knowledge",
    "memory",
)
_LARGE_FOLDERS = ("file", "image")
_PROGRAM_FILES = frozenset({"package.json", "package-lock.json", "tsconfig.json"})
_MADE_BY_TOOLS = frozenset(
    {"node_modules", ".venv", "venv", "__pycache__", ".git", ".cache", "cache", "log", "logs", "debug"}
)
_CACHES = frozenset({"multimodal_cache.json", "image_cache.json"})
_DESCRIPTIONS = Path(STATE_FOLDER, "plugins", "ImageProcessor", "transcriptions.sqlite3")
_STORE_SUFFIXES = (".sqlite", ".sqlite3", ".db", ".json")
_OF_THE_MOMENT = frozenset(
    {
        LOCK_FILE,
        OWNER_FILE,
        NODE_KEYS_LOCK,
        EDIT_LOCK,
        Path(STATE_FOLDER, REPLACED_FOLDER),
        Path(STATE_FOLDER, "memory"),  # made from the notes
        Path(STATE_FOLDER, "traces"),  # of the last days, and private
        Path(STATE_FOLDER, "config.lock"),
        Path(STATE_FOLDER, "trash"),  # what people wanted to be rid of
        Path(STATE_FOLDER, "mcp_tools", "lock"),
        Path(STATE_FOLDER, "mcp_oauth", "locks"),
        Path(STATE_FOLDER, "mcp_oauth", "pending.json"),
    }
)
"""What says nothing once its process has ended, and what is no part of the installation."""

SQLITE_COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database; a copy made by SQLite itself has everything inside."""

MAX_DEPTH = 64

Tell = Callable[[str, str], None]
"""Told of what was left out although it may have been wanted: its name, and why in both languages."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder to keep; ``name`` is its path below the home, with slashes."""

    path: Path
    name: str
    folder: bool


def contents(home: Path, notebooks: Path, *, with_files: bool, tell: Tell) -> Iterator[Entry]:
    """Everything that belongs into a backup, folders before what is in them, in the order of names.

    ``notebooks`` outside of the home are told and left out.

    Links are followed: what a name leads to is kept under that name, once around for links that lead back. Special
    files and what cannot be listed are told.
    """
    walk = _Walk(home, with_files=with_files, tell=tell)
    folders = {*_FOLDERS}
    if home in notebooks.parents:
        folders.add(notebooks.relative_to(home).parts[0])
    elif notebooks.is_dir():
        tell(str(notebooks), both("日记目录在安装目录之外，未包含", "the notebooks lie outside of the home, left out"))
    for name in sorted(_names(home)):
        if name in folders or (with_files and name in _LARGE_FOLDERS):
            yield from walk.below(name)
        elif name == CONFIG_FILE or (name.endswith(".json") and name not in _PROGRAM_FILES):
            yield from walk.file(name)


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in os.scandir(folder)]


class _Walk:
    def __init__(self, home: Path, *, with_files: bool, tell: Tell) -> None:
        self._home = home
        self._with_files = with_files
        self._tell = tell
        self._inside: list[tuple[int, int]] = []

    def file(self, name: str) -> Iterator[Entry]:
        status = self._status(name)
        if status is not None and stat.S_ISREG(status.st_mode):
            yield Entry(self._home / name, name, folder=False)
        elif status is not None:
            self._tell(name, both("不是普通文件，未包含", "not a regular file, left out"))

    def below(self, name: str) -> Iterator[Entry]:
        """A folder and everything in it that is wanted."""
        status = self._status(name)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            yield from self.file(name)
            return
        identity = (status.st_dev, status.st_ino)
        if identity in self._inside or len(self._inside) >= MAX_DEPTH:
            self._tell(name, both("链接成环或嵌套过深，未包含", "leads back to itself or is too deep, left out"))
            return
        try:
            names = sorted(_names(self._home / name))
        except OSError as error:
            self._tell(name, both("无法列出，未包含", "cannot be listed, left out") + f": {error.strerror or error}")
            return
        yield Entry(self._home / name, name, folder=True)
        self._inside.append(identity)
        for child in names:
            if self._wanted(name, child, names):
                yield from self.below(f"{name}/{child}")
        self._inside.pop()

    def _status(self, name: str) -> os.stat_result | None:
        try:
            return (self._home / name).stat()
        except FileNotFoundError:
            if (self._home / name).is_symlink():
                self._tell(name, both("链接指向不存在的文件，未包含", "a link that leads nowhere, left out"))
            else:
                self._tell(name, both("备份期间消失了", "vanished while the backup was made"))
        except OSError as error:
            self._tell(name, both("无法读取，未包含", "cannot be read, left out") + f": {error.strerror or error}")
        return None

    def _wanted(self, folder: str, name: str, beside: list[str]) -> bool:
        root = folder.partition("/")[0]
        if name.startswith(".") and name.endswith(".tmp"):
            return False  # a file that is being written
        if any(name.endswith(ending) and name.removesuffix(ending) in beside for ending in SQLITE_COMPANIONS):
            return False
        path = Path(folder, name)
        if path in _OF_THE_MOMENT or (path == _DESCRIPTIONS and not self._with_files):
            return False
        if root == "Plugin":
            if name in _MADE_BY_TOOLS or name.endswith((".pyc", ".log")):
                return False
            return self._with_files or name not in _CACHES
        if folder == "VectorStore":
            return name.endswith(_STORE_SUFFIXES)
        return True
