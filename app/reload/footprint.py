"""What the files of an installation look like from outside: enough to see that one of them changed, never its content.

Only files that a reload reads are looked at. What plugins write into their folders (data, caches, lists, codes) is not
among them, so no plugin can cause reloads by working.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.config.snapshot import CONFIG_FILE
from app.plugins.manifest import BLOCKED_NAME, MANIFEST_NAME
from app.plugins.person_files import TEXTS_NAME
from app.plugins.sources import python_sources

HOME_FILES = (CONFIG_FILE, "agent_map.json", "ModelRedirect.json", "preprocessor_order.json", "ip_blacklist.json")
PLUGIN_FILES = (MANIFEST_NAME, BLOCKED_NAME, CONFIG_FILE, TEXTS_NAME)
PLUGINS = "Plugin"

MAX_PLUGIN_FOLDERS = 2000
"""Folders in ``Plugin/`` that are looked at; changes in further ones wait for a reload that somebody asks for."""

Signature = tuple[int, ...]
"""Device, inode, size, times of change in ns; or only the error number of a file that cannot be looked at."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """How files lie there at one moment.

    ``files`` holds those that exist, ``folders`` where notifications are worth having, with their inodes: another
    folder of the same name has to be watched anew. ``cut`` tells that there was more than the limit.
    """

    files: Mapping[Path, Signature]
    folders: Mapping[Path, int]
    cut: bool = False

    def changed_since(self, before: Footprint) -> frozenset[Path]:
        """Files that are new, gone or different."""
        return frozenset(
            path for path in {*self.files, *before.files} if self.files.get(path) != before.files.get(path)
        )

    def shrunk_since(self, before: Footprint) -> bool:
        """True when a file has got smaller or is gone: it may be in the middle of being saved.

        A manifest that got its ``.block`` name was renamed, not lost, and the other way round.
        """
        for path, signature in before.files.items():
            now = self.files.get(path)
            if now is None:
                twin = _TWINS.get(path.name)
                if twin is None or path.with_name(twin) not in self.files:
                    return True
            elif _size(now) < _size(signature):
                return True
        return False


_TWINS = {MANIFEST_NAME: BLOCKED_NAME, BLOCKED_NAME: MANIFEST_NAME}
_SIZE = 2


def look(home: Path, code_folders: Iterable[Path] = ()) -> Footprint:
    """Look at everything below ``home`` that a reload reads. Links are followed, so another target is a change (P93).

    ``code_folders`` are those of in-process plugins, whose Python files count too. Blocks; never raises.
    """
    files: dict[Path, Signature] = {}
    folders = {home}
    for name in HOME_FILES:
        _add(files, home / name)
        folders |= _behind_link(home / name)
    root = home / PLUGINS
    folders |= {root, *_behind_link(root)}
    plugin_folders, cut = _folders(root)
    for folder in plugin_folders:
        folders.add(folder)
        for name in PLUGIN_FILES:
            _add(files, folder / name)
    for folder in code_folders:
        sources = python_sources(folder)
        folders.update(sources.folders)
        for path in sources.files:
            _add(files, path)
    return Footprint(files, _existing(folders), cut)


def matters(path: Path, home: Path) -> bool:
    """Whether a notification about ``path`` is a reason to look: not about data in the folder of a plugin."""
    return path.name in PLUGIN_FILES or path.suffix in ("", ".py") or home / PLUGINS not in path.parent.parents


def _add(files: dict[Path, Signature], path: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        files[path] = (error.errno or 0,)
        return
    if stat.S_ISREG(status.st_mode):
        files[path] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    else:
        files[path] = (status.st_dev, status.st_ino)


def _existing(folders: Iterable[Path]) -> dict[Path, int]:
    found = {}
    for folder in sorted(folders):
        try:
            status = folder.stat()
        except OSError:
            continue  # made later, it is found by a later look
        if stat.S_ISDIR(status.st_mode):
            found[folder] = status.st_ino
    return found


def _size(signature: Signature) -> int:
    return signature[_SIZE] if len(signature) > _SIZE else 0


def _folders(root: Path) -> tuple[list[Path], bool]:
    found: list[Path] = []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if len(found) >= MAX_PLUGIN_FOLDERS:
                    return found, True
                if _is_folder(entry):
                    found.append(root / entry.name)
    except OSError:
        return found, False  # a missing Plugin/ has no plugins; whoever reads it tells what is wrong with it
    return found, False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _behind_link(path: Path) -> frozenset[Path]:
    """The folder in which the target of a link lies: the link itself does not change when its target does."""
    try:
        return frozenset({path.resolve().parent}) if path.is_symlink() else frozenset()
    except (OSError, RuntimeError):  # a link that leads to itself
        return frozenset()
