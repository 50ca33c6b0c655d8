"""Folders of files as answers to GET requests: what the picture and the file service share (spec 1.11).

Nothing outside of the folder is ever served: the path is taken apart, every name is looked at, and what it leads to
after all symbolic links must lie in the folder.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from mimetypes import guess_type
from pathlib import Path
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response

INDEX = "index.html"
FORBIDDEN = "Forbidden"
_ACTIVE = ("text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "application/xml")
"""Kinds that a browser runs scripts of: they may look like a page of this server, and must not act as one (B5)."""

_NOT_CHANGED_HEADERS = frozenset(
    {"cache-control", "content-location", "date", "etag", "expires", "last-modified", "vary"}
)


@dataclass(frozen=True, slots=True)
class _Found:
    path: str
    status: os.stat_result


class ServedFolder:
    """One folder. ``index`` serves ``index.html`` of folders, and leads to a folder's address with a slash at its end.

    Names that begin with a dot are not there (404), or forbidden (403) with ``dotfiles_forbidden``.
    """

    def __init__(self, root: Path, *, index: bool = True, dotfiles_forbidden: bool = False) -> None:
        self._root = root
        self._index = index
        self._dotfiles_forbidden = dotfiles_forbidden

    async def answer(self, request: Request, path: str) -> Response:
        """The answer for ``path`` below the folder; raises HTTPException 404 when there is nothing to serve."""
        names = [name for name in path.split("/") if name]
        if any(name.startswith(".") for name in names):
            if self._dotfiles_forbidden and not any(name in (".", "..") for name in names):
                return PlainTextResponse(FORBIDDEN, 403)
            raise HTTPException(404)
        found = await asyncio.to_thread(self._find, names)
        if found is not None and stat.S_ISDIR(found.status.st_mode) and self._index:
            if not path.endswith("/") and path:
                return RedirectResponse(quote(request.scope["path"], safe="/=") + "/", 301)
            found = await asyncio.to_thread(self._find, [*names, INDEX])
        elif found is not None and path.endswith("/"):
            found = None  # a file is no folder
        if found is None or not stat.S_ISREG(found.status.st_mode):
            raise HTTPException(404)
        return _file(request, found)

    def _find(self, names: Sequence[str]) -> _Found | None:
        if any("\0" in name or "\\" in name or (os.name == "nt" and ":" in name) for name in names):
            return None
        try:
            root = self._root.resolve()
            path = root.joinpath(*names).resolve()
            return _Found(str(path), path.stat()) if path.is_relative_to(root) else None
        except (OSError, ValueError, RuntimeError):  # RuntimeError: links that lead in a circle
            return None


def _file(request: Request, found: _Found) -> Response:
    kind = guess_type(found.path)[0] or "application/octet-stream"
    headers = {"Cache-Control": "public, max-age=0", "X-Content-Type-Options": "nosniff"}
    if kind in _ACTIVE:
        headers["Content-Security-Policy"] = "sandbox"
    answer = FileResponse(found.path, headers=headers, media_type=kind, stat_result=found.status)
    if _not_changed(request, answer):
        kept = {name: value for name, value in answer.headers.items() if name in _NOT_CHANGED_HEADERS}
        return Response(status_code=304, headers=kept)
    return answer


def _not_changed(request: Request, answer: FileResponse) -> bool:
    """Whether the client has this very file (RFC 9110, 13.1.2 and 13.1.3)."""
    if (tags := request.headers.get("if-none-match")) is not None:
        etag = answer.headers["etag"]
        return tags.strip() == "*" or etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return parsedate_to_datetime(answer.headers["last-modified"]) <= parsedate_to_datetime(since)
    except (ValueError, TypeError):
        return False
