"""Files of memory for administrators: notebook tags, semantic groups, thinking chains (memory.md 1.7; vcp-core 8.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.chat.payload import loads_request
from app.errors import BadRequestError, NotFoundError, both
from app.extend import Access, DeclaredRoute, Json
from app.memory.diaries.notebooks import notebooks
from app.memory.enhance import editing
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.errors import JsonResponse

PREFIX = "/admin_api"
BODY_LIMIT = 16 * 1024 * 1024
CLUSTER_SUFFIX = "簇"

Save = Callable[[Path, Mapping[str, Json]], None]


class MemoryFilesRoutes:
    """The ``RouteSource`` of these files; what is stored is in force at once."""

    def __init__(self, services: Services) -> None:
        self._services = services
        handlers: tuple[tuple[str, str, Callable[[Request], Awaitable[Response]]], ...] = (
            ("GET", "/rag-tags", self._given(editing.rag_tags)),
            ("POST", "/rag-tags", self._stored(editing.save_rag_tags)),
            ("GET", "/semantic-groups", self._given(editing.groups)),
            ("POST", "/semantic-groups", self._stored(editing.save_groups)),
            ("GET", "/thinking-chains", self._given(editing.chains)),
            ("POST", "/thinking-chains", self._stored(editing.save_chains)),
            ("GET", "/available-clusters", self._clusters),
            ("GET", "/vectordb/status", self._status),
        )
        self._routes = tuple(
            DeclaredRoute(Route(PREFIX + path, handler, methods=[method]), Access.ADMIN)
            for method, path, handler in handlers
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    def _given(self, read: Callable[[Path], Mapping[str, object] | None]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(_request: Request) -> Response:
            try:
                document = await asyncio.to_thread(read, self._services.in_force.home)
            except (ValueError, OSError) as fault:
                return JsonResponse({"error": f"{both('文件无法读取', 'the file cannot be read')}: {fault}"}, 500)
            if document is None:
                raise NotFoundError(both("文件不存在", "there is no such file"))
            return JsonResponse(document)

        return answer

    def _stored(self, save: Save) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            document = await _object(request)
            try:
                await asyncio.to_thread(save, self._services.in_force.home, document)
            except OSError as fault:
                reason = fault.strerror or str(fault)
                return JsonResponse({"error": f"{both('文件无法保存', 'the file cannot be stored')}: {reason}"}, 500)
            return JsonResponse({"message": both("已保存，立即生效", "Saved, and in force")})

        return answer

    async def _clusters(self, _request: Request) -> Response:
        root = self._services.in_force.notebooks
        names = await asyncio.to_thread(notebooks, root)
        return JsonResponse({"clusters": [name for name in names if name.endswith(CLUSTER_SUFFIX)]})

    async def _status(self, _request: Request) -> Response:
        try:
            status = await self._services.memory.index.status() | {"vectors": self._services.memory.vectors.status()}
        except NotFoundError:
            return JsonResponse({"success": False, "error": "VectorDBManager is not available."}, 503)
        return JsonResponse({"success": True, "status": status})


async def _object(request: Request) -> Mapping[str, Json]:
    try:
        data = await read_body(request.scope, request.receive, BODY_LIMIT)
    except ClientGoneError:
        data = b""
    try:
        body: Json = await asyncio.to_thread(loads_request, data)
    except (ValueError, RecursionError):
        raise BadRequestError(both("请求体不是 JSON", "the request body is not JSON")) from None
    if not isinstance(body, dict):
        raise BadRequestError(both("请求体必须是 JSON 对象", "the request body must be a JSON object"))
    return body
