"""``{{X日记本}}`` and ``{{AllCharacterDiariesData}}``: notebooks under ``dailynote/``, read live (memory 1.7, 2.2)."""

from __future__ import annotations

import asyncio
import logging
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.extend import Found, PromptContext, Trust
from app.prompt.files import contained, read_tail
from app.prompt.scope import SYSTEM
from app.protocol.json_text import compact_json
from app.protocol.prompt_texts import (
    DIARY_SEPARATOR,
    DIARY_SUFFIX,
    diary_cut,
    diary_empty,
    diary_file_unreadable,
    diary_missing,
)

log = logging.getLogger(__name__)

ALL_DIARIES = "AllCharacterDiariesData"
"""The placeholder of all notebooks at once."""

SUFFIXES = (".txt", ".md")

MAX_NAME = 255
"""Characters of a folder name; no file system has longer ones."""

WHOLE_DUMP = 10
"""The dump of all notebooks may be this many times as long as one notebook."""


class Notebooks:
    """Reads whole notebooks. A notebook is a folder directly below ``root``; methods block.

    Of a notebook with more than ``max_chars`` characters the end is kept: file names begin with dates, so that is
    what was written last.
    """

    def __init__(self, root: Path, max_chars: int) -> None:
        self.root = root
        self.max_chars = max_chars

    def names(self) -> list[str]:
        """All notebooks by name."""
        try:
            entries = [entry.name for entry in self.root.iterdir()]
        except OSError as error:
            log.warning("notebooks cannot be listed: %s", error)
            return []
        return sorted(name for name in entries if self._folder(name) is not None)

    def read(self, name: str, max_chars: int | None = None) -> str | None:
        """The files of a notebook in name order; None when there is no such notebook (B3: or it leads elsewhere).

        ``max_chars`` makes the limit smaller for this once.
        """
        files = self.files(name)
        if files is None:
            return None
        if not files:
            return diary_empty(name)
        return self.read_files([(name, file) for file in files], name, max_chars)

    def files(self, name: str) -> list[str] | None:
        """The names of a notebook's files in order; None when there is no such notebook."""
        folder = self._folder(name)
        if folder is None:
            return None
        try:
            entries = [entry.name for entry in folder.iterdir()]
        except OSError as error:
            log.warning("notebook '%s' cannot be listed: %s", name, error)
            return None
        return sorted(entry for entry in entries if entry.lower().endswith(SUFFIXES) and not entry.startswith("."))

    def read_files(self, files: Sequence[tuple[str, str]], name: str, max_chars: int | None = None) -> str:
        """The texts of some files, each told by its notebook and its name, in this order; the first are cut first.

        ``name`` is what a cut calls them.
        """
        limit = self.max_chars if max_chars is None else min(max_chars, self.max_chars)
        texts: list[str] = []
        left = limit
        for number, (notebook, file) in enumerate(reversed(files)):
            folder = self._folder(notebook)
            text, cut = (diary_file_unreadable(file), False) if folder is None else self._file(folder, file, left)
            texts.append(text)
            left -= len(text) + len(DIARY_SEPARATOR)
            if cut or (left <= 0 and number + 1 < len(files)):
                texts.append(diary_cut(name, limit))
                break
        return DIARY_SEPARATOR.join(reversed(texts))

    def dump(self) -> str:
        """A JSON object of all notebooks by name, together at most ``WHOLE_DUMP`` times as long as one."""
        texts: dict[str, str] = {}
        left = WHOLE_DUMP * self.max_chars
        for name in self.names():
            text = self.read(name, max(0, left))
            if text is not None:
                texts[name] = text
                left -= len(text)
        return compact_json(texts)

    def _file(self, folder: Path, file: str, max_chars: int) -> tuple[str, bool]:
        try:
            return read_tail(contained(folder, file), max_chars)
        except OSError as error:
            log.warning("diary file '%s/%s' cannot be read: %s", folder.name, file, error)
            return diary_file_unreadable(file), False

    def _folder(self, name: str) -> Path | None:
        if name.startswith(".") or len(name) > MAX_NAME or re.search(r"[/\\\0]", name):
            return None
        try:
            folder = contained(self.root, name)
            return folder if stat.S_ISDIR(folder.stat().st_mode) else None
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("notebook '%s' is refused: %s", name, error)
            return None


class DiarySource:
    """The placeholder source of ``{{X日记本}}``: the full text of a notebook, as data."""

    name = "diary"
    pattern = re.compile(r"\{\{([^{}\r\n]+?)" + DIARY_SUFFIX + r"\}\}")
    roles = frozenset({SYSTEM})
    trust = Trust.DATA
    after_detectors = False

    def __init__(self, notebooks: Notebooks) -> None:
        self._notebooks = notebooks

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        """All named notebooks, read in one go outside of the event loop."""
        return await asyncio.to_thread(self._read, found)

    def _read(self, found: Sequence[Found]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for item in found:
            name = item.groups[0]
            text = self._notebooks.read(name)
            texts[item.text] = diary_missing(name) if text is None else text
        return texts


class AllDiariesSource:
    """The placeholder source of ``{{AllCharacterDiariesData}}``: a JSON object of all notebooks, as data.

    The files of now are the only source of it: plugins that collect the same from time to time are not run.
    """

    name = "diaries"
    pattern = re.compile(r"\{\{" + ALL_DIARIES + r"\}\}")
    roles = frozenset({SYSTEM})
    trust = Trust.DATA
    after_detectors = False

    def __init__(self, notebooks: Notebooks) -> None:
        self._notebooks = notebooks

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        """The dump of now, read outside of the event loop."""
        text = await asyncio.to_thread(self._notebooks.dump)
        return {item.text: text for item in found}
