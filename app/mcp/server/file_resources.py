"""``file:///…``: files below one folder that an operator names (mcp.md MCP-28). They are read, and never listed."""

from __future__ import annotations

import logging
import mimetypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from app.errors import both
from app.mcp.server.resource_kinds import JSON_TYPE, TEXT, Content, Entry, is_plain_name, read_file

log = logging.getLogger(__name__)

NEVER = frozenset({"config.env"})
"""Files that are read for nobody, wherever they are: they hold keys."""

MAX_VALUES = 1000
MAX_FOLDERS = 1000
"""Files that a completion chooses from, and folders that are looked through for them."""

_MEDIA = ("image/", "audio/", "video/", "font/")


class ProjectFiles:
    """The ``ResourceKind`` of files below ``root``, an absolute path; None while there is none.

    Real paths count, so no link leads out; hidden files and folders do not exist.
    """

    scheme = "file"
    template = "file:///{+path}"
    description = both("项目文件", "files of the project")

    def __init__(self, root: Callable[[], Path | None]) -> None:
        self._root = root
        self._types = mimetypes.MimeTypes()  # those of Python alone, so that no machine has others

    def entries(self) -> Iterable[Entry]:
        """None: they are found by the template alone."""
        return ()

    def read(self, parts: Sequence[str]) -> Content | None:
        """See ``ResourceKind.read``."""
        root = self._root()
        if root is None or len(parts) < 2 or parts[0] or not all(map(is_plain_name, parts[1:])):
            return None
        try:
            real = Path(os.path.realpath(root))
            path = Path(os.path.realpath(Path("/", *parts[1:])))
        except (OSError, ValueError):
            return None
        inside = path.relative_to(real).parts if path.is_relative_to(real) else ()
        if not inside or path.name in NEVER or not all(map(is_plain_name, inside)):
            return None
        data = read_file(path.parent, path.name)
        return None if data is None else Content(data, _type_of(self._types.guess_type(path.name)[0] or "", data))

    def values(self, argument: str, given: Mapping[str, str]) -> Iterable[str]:
        """See ``ResourceKind.values``; without the slash that the template has."""
        root = self._root()
        return [] if argument != "path" or root is None else self._found(root)

    def _found(self, root: Path) -> list[str]:
        found: list[str] = []
        folders, looked = deque([Path(os.path.realpath(root))]), 0
        while folders and looked < MAX_FOLDERS and len(found) < MAX_VALUES:
            looked += 1
            try:
                with os.scandir(folders.popleft()) as entries:
                    for entry in entries:
                        if not is_plain_name(entry.name) or entry.name in NEVER:
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(Path(entry.path))
                        elif entry.is_file(follow_symlinks=False):
                            found.append(entry.path.removeprefix("/"))
            except OSError as error:
                log.warning("a folder of files for MCP clients cannot be listed: %s", error.strerror or error)
        return found[:MAX_VALUES]


def _type_of(guessed: str, data: bytes) -> str:
    """The media type that the name says; what is text whatever it is called is text."""
    if guessed.startswith(("text/", *_MEDIA)) or guessed == JSON_TYPE:
        return guessed
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return guessed or "application/octet-stream"
    return TEXT if b"\0" not in data else guessed or "application/octet-stream"
