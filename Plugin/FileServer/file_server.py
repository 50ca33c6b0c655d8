"""Serves ``file/`` of the installation under ``/pw=KEY/files/``, and two folders of pictures as if they lay in it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import both
from app.extend import Access, DeclaredRoute, PathKey, PluginContext
from app.plugins.served_folders import ServedFolder

WRONG_FILE_KEY = "Unauthorized: Invalid key for file access."
VIRTUAL_FOLDERS = ("doubaogen", "fluxgen")
"""Folders of ``image/`` that are found under ``files/`` too: plugins that make pictures print such addresses."""


class FileServer:
    """The file service: no index pages, no hidden files."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._files = ServedFolder(context.home / "file", index=False, dotfiles_forbidden=True)
        self._virtual = {
            name: ServedFolder(context.home / "image" / name, index=False, dotfiles_forbidden=True)
            for name in VIRTUAL_FOLDERS
        }

    def start(self) -> None:
        """Make the folder."""
        (self._context.home / "file").mkdir(exist_ok=True)

    def routes(self) -> list[DeclaredRoute]:
        """The one address; what is not found here goes on to whoever else declares it."""
        key = self._context.config.get("File_Key", "")
        missing = both("未设置 File_Key，无法提供文件", "Server configuration error: File_Key is not set")
        path_key = PathKey("key", lambda: key, WRONG_FILE_KEY, missing)
        return [DeclaredRoute(Route("/pw={key}/files/{path:path}", self._file), Access.PATH_KEY, path_key)]

    async def _file(self, request: Request) -> Response:
        path: str = request.path_params["path"]
        first, _, rest = path.lstrip("/").partition("/")
        if first in self._virtual:
            return await self._virtual[first].answer(request, rest)
        return await self._files.answer(request, path)


def create(context: PluginContext) -> FileServer:
    """The plugin."""
    return FileServer(context)
