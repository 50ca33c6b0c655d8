"""Serves ``image/`` and ``file/`` of the installation under ``/pw=KEY/images/`` and ``/pw=KEY/files/``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import both
from app.extend import Access, DeclaredRoute, PathKey, PluginContext
from app.plugins.served_folders import ServedFolder

WRONG_IMAGE_KEY = "Unauthorized: Invalid key for image access."
WRONG_FILE_KEY = "Unauthorized: Invalid key for file access."

Endpoint = Callable[[Request], Awaitable[Response]]


class ImageServer:
    """The picture service."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._images = ServedFolder(context.home / "image")
        self._files = ServedFolder(context.home / "file")

    def start(self) -> None:
        """Make the folders."""
        for name in ("image", "file"):
            (self._context.home / name).mkdir(exist_ok=True)

    def routes(self) -> list[DeclaredRoute]:
        """Both addresses; that of pictures is not there without a key."""
        missing = both("未设置 File_Key，无法提供文件", "Server configuration error: File_Key is not set")
        return [
            self._declared("images", self._image, "Image_Key", WRONG_IMAGE_KEY, ""),
            self._declared("files", self._file, "File_Key", WRONG_FILE_KEY, missing),
        ]

    def _declared(self, folder: str, endpoint: Endpoint, setting: str, wrong: str, missing: str) -> DeclaredRoute:
        key = self._context.config.get(setting, "")
        path_key = PathKey("key", lambda: key, wrong, missing)
        return DeclaredRoute(Route(f"/pw={{key}}/{folder}/{{path:path}}", endpoint), Access.PATH_KEY, path_key)

    async def _image(self, request: Request) -> Response:
        return await self._images.answer(request, request.path_params["path"])

    async def _file(self, request: Request) -> Response:
        return await self._files.answer(request, request.path_params["path"])


def create(context: PluginContext) -> ImageServer:
    """The plugin."""
    return ImageServer(context)
