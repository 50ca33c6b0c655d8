"""Half-written files that a killed process left behind: hidden, under names that only our writers give."""

from __future__ import annotations

import itertools
import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from app.config.home_folders import NOTEBOOKS

log = logging.getLogger(__name__)

OLD_SECONDS = 3600.0
"""Age from which nobody is writing to such a file any more."""

MAX_ENTRIES = 200_000
"""Entries of folders that one sweep looks at."""

FOLDERS = (
    "",
    ".file_cache",
    ".file_cache/content",
    ".file_cache/index",
    "Agent",
    "Plugin/RAGDiaryPlugin",
    "Plugin/EmojiListGenerator/generated_lists",
    "Plugin/UserAuth",
    "TVStxt",
    "VCPAsyncResults",
    "VCPTimedContacts",
    "VCPTimedContacts/.running",
    "VCPTimedContacts/failed",
    "VCPTimedResults",
    "memory",
    ".vcp",
    ".vcp/background_results",
    ".vcp/callbacks",
    ".vcp/config_backups",
    ".vcp/memory",
    ".vcp/static_values",
)
"""Folders of a home in which the server writes files; the notebooks come to these."""

_OURS = re.compile(r"\..*\.[0-9a-f]{16}\.tmp|\.[0-9a-f]{32}\.tmp", re.DOTALL)


def sweep_leftovers(home: Path, now: float, notebooks: Path | None = None) -> int:
    """Remove what is ``OLD_SECONDS`` old at ``now`` (epoch); returns how many files went. Blocks; raises nothing.

    ``notebooks`` is their folder where it is not ``dailynote``.

    Links are neither followed nor removed.
    """
    gone = 0
    for entry in itertools.islice(_entries(home, notebooks or home / NOTEBOOKS), MAX_ENTRIES):
        if _OURS.fullmatch(entry.name) is None:
            continue
        try:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and now - status.st_mtime >= OLD_SECONDS:
                Path(entry.path).unlink()
                gone += 1
        except OSError as error:
            log.warning("%s cannot be removed: %s", entry.path, error.strerror or error)
    if gone:
        log.info("%d half-written files of processes that were killed are removed", gone)
    return gone


def _entries(home: Path, notebooks: Path) -> Iterator[os.DirEntry[str]]:
    for name in FOLDERS:
        yield from _folder(home / name)
    for notebook in _folder(notebooks):
        yield notebook
        try:
            inside = notebook.is_dir(follow_symlinks=False)
        except OSError:
            continue
        if inside:
            yield from _folder(Path(notebook.path))


def _folder(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        log.warning("%s cannot be listed: %s", path, error.strerror or error)
