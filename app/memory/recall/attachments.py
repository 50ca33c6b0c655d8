"""``::Base64Memo``: media that recalled text links to, as parts for the last user message (memory.md 2.5).

Only files in the folders that the picture and file servers serve, and in ``dailynote/``; a link to anything else, or
out of these folders, is left alone.
"""

from __future__ import annotations

import base64
import logging
import mimetypes
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.extend import Json
from app.prompt.files import contained
from app.protocol import file_urls

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_TOTAL_BYTES = 24 * 1024 * 1024
MAX_LINKS = 200
"""Links of one request that are looked at."""

FOLDERS = ("image", "file", "dailynote")

_LINK = re.compile(r"""!?\[[^\]\n]{0,500}\]\(\s*<?([^\s<>()]{1,2000})|\bsrc\s*=\s*["']([^"'<>\n]{1,2000})["']""")
_SERVED = re.compile(r"/pw=[^/]+/(images|files)/(.+)", re.DOTALL)
_SERVED_FOLDERS = {"images": "image", "files": "file"}
_KINDS = ("image", "audio", "video")


def media_links(text: str) -> Iterator[str]:
    """Addresses in Markdown links and in ``src`` attributes, in order."""
    for match in _LINK.finditer(text):
        yield match[1] or match[2]


def media_parts(texts: Sequence[str], home: Path, limit: int) -> tuple[Json, ...]:
    """At most ``limit`` media files that the texts link to, each once, as ``image_url`` parts with data. Blocks."""
    parts: list[Json] = []
    left = MAX_TOTAL_BYTES
    links = dict.fromkeys(link for text in texts for link in media_links(text))
    for link in list(links)[:MAX_LINKS]:
        if len(parts) >= limit:
            break
        kind = (mimetypes.guess_type(link.partition("?")[0])[0] or "").partition("/")[0]
        path = _file_of(link, home) if kind in _KINDS else None
        data = None if path is None else _read(path, min(left, MAX_FILE_BYTES))
        if path is None or data is None:
            continue
        left -= len(data)
        mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        url = f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return tuple(parts)


def _file_of(link: str, home: Path) -> Path | None:
    """The file that a link means, if it is one of ours."""
    if file_urls.is_file_url(link):
        if file_urls.host_of(link):
            return None
        absolute = os.path.realpath(file_urls.path_of(link)) if "\0" not in file_urls.path_of(link) else ""
        for folder in FOLDERS:
            root = os.path.realpath(home / folder)
            if absolute.startswith(root + os.sep):
                return Path(absolute)
        return None
    try:
        served = _SERVED.fullmatch(urlsplit(link).path)
    except ValueError:
        return None
    if served is None:
        return None
    try:
        return contained(home / _SERVED_FOLDERS[served[1]], unquote(served[2]))
    except OSError:
        return None


def _read(path: Path, limit: int) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            if not path.is_file() or size > limit:
                return None
            return file.read(limit)
    except OSError as error:
        log.warning("media file '%s' cannot be attached: %s", path.name, error.strerror)
        return None
