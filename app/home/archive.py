"""The form of a backup: a ``tar.gz`` with the files below ``home/`` and, last, a manifest with their SHA-256."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from app.errors import VcpError, both
from app.extend import Json
from app.protocol.json_text import compact_json, strict_json

FORMAT = 1
MANIFEST = "vcp-backup.json"
PREFIX = "home/"
BLOCK_BYTES = 1024 * 1024
SQLITE_MAGIC = b"SQLite format 3\0"
MAX_MANIFEST_BYTES = 512 * 1024 * 1024

_SHA256 = re.compile(r"[0-9a-f]{64}")


class ArchiveError(VcpError):
    """A backup cannot be written or used; the message names the file at fault."""

    code = "archive_error"


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file: its path below the home, its size in bytes and its SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """What a backup says of itself. ``version`` is that of the program, ``made`` the time in ISO 8601."""

    version: str
    made: str
    files: tuple[ArchivedFile, ...]
    with_files: bool = False

    def to_bytes(self) -> bytes:
        """The manifest as it stands in the archive."""
        files = [[file.name, file.size, file.sha256] for file in self.files]
        value = {
            "format": FORMAT,
            "version": self.version,
            "made": self.made,
            "with_files": self.with_files,
            "files": files,
        }
        # Names that are no UTF-8 hold lone surrogates, which only escapes can write.
        return compact_json(value).encode("utf-8", "surrogatepass")


def parse_manifest(data: bytes) -> ArchiveManifest:
    """Read a manifest. Raises ArchiveError when it is none, or of a later format."""
    try:
        value = strict_json(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise _damaged(str(error)) from error
    if not isinstance(value, dict):
        raise _damaged("no object")
    if value.get("format") != FORMAT:
        raise ArchiveError(
            both(
                f"此备份的格式为 {value.get('format')!r}，本程序只认识 {FORMAT}",
                f"this backup has the format {value.get('format')!r}; this program knows {FORMAT}",
            )
        )
    files = value.get("files")
    if not isinstance(files, list):
        raise _damaged("no list of files")
    return ArchiveManifest(
        version=_text(value, "version"),
        made=_text(value, "made"),
        files=tuple(_file(item) for item in files),
        with_files=value.get("with_files") is True,
    )


def _file(item: Json) -> ArchivedFile:
    if isinstance(item, list) and len(item) == 3:
        name, size, sha256 = item
        if (
            isinstance(name, str)
            and isinstance(size, int)
            and not isinstance(size, bool)
            and isinstance(sha256, str)
            and _SHA256.fullmatch(sha256)
        ):
            return ArchivedFile(name, size, sha256)
    raise _damaged(f"a file is described as {str(item)[:100]}")


def _text(value: Mapping[str, Json], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _damaged(what: str) -> ArchiveError:
    return ArchiveError(both(f"备份清单 {MANIFEST} 已损坏", f"the manifest {MANIFEST} is damaged") + f": {what}")


def checked_name(name: str) -> str:
    """The path below the home of an archive's member. Raises ArchiveError for one that could lead out of the home."""
    inner = name.removeprefix(PREFIX)
    parts = PurePosixPath(inner).parts
    foreign = os.name == "nt" and any(character in inner for character in '\\:*?"<>|')
    if (
        not name.startswith(PREFIX)
        or not parts
        or inner.startswith("/")
        or ".." in parts
        or "\0" in inner
        or "/".join(parts) != inner.rstrip("/")
        or foreign
    ):
        raise ArchiveError(
            both(f"备份中的路径 {name!r} 不可接受，已拒绝", f"the backup holds the path {name!r}, which is refused")
        )
    return inner.rstrip("/")
