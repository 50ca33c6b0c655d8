"""The panel's own files, and those of its libraries: read once, served with a name for each version."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "static"
PREFIX = "/AdminPanel/static/"

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _Asset:
    content: bytes
    media_type: str


class Assets:
    """The files below ``static/``: everybody may read them, since the login page needs some.

    The version stands in the path, one for all files, so that a module and what it imports are of one version.
    """

    @cached_property
    def _all(self) -> dict[str, _Asset]:
        paths = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in _TYPES]
        return {path.relative_to(FOLDER).as_posix(): _Asset(path.read_bytes(), _TYPES[path.suffix]) for path in paths}

    @cached_property
    def _version(self) -> str:
        digest = hashlib.sha256()
        for name, asset in self._all.items():
            digest.update(f"{name}:{len(asset.content)}:".encode() + asset.content)
        return digest.hexdigest()[:12]

    def address(self, name: str) -> str:
        """The address of a file in the version of now; KeyError for one that is not there."""
        if name not in self._all:
            raise KeyError(name)
        return f"{PREFIX}{self._version}/{name}"

    async def answer(self, request: Request) -> Response:
        """The route of all files; another version than that of now gets the file of now and is not kept."""
        asset = self._all.get(request.path_params["name"])
        if asset is None:
            return Response("not found", 404, media_type="text/plain")
        current = request.path_params["version"] == self._version
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": _FOREVER if current else "no-store"}
        return Response(asset.content, media_type=asset.media_type, headers=headers)
