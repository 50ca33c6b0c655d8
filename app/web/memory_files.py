"""Files of memory for administrators: notebook tags, semantic groups, thinking chains (memory.md 1.7; vcp-core 8.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import NotFoundError, both
from app.extend import Access, DeclaredRoute
from app.memory.diaries.notebooks import notebooks
from app.memory.enhance import editing
from app.services import Services
from app.web.admin.bodies import Answer, etag, expected_version, json_object, telling
from app.web.errors import JsonResponse

PREFIX = "/admin_api"
CLUSTER_SUFFIX = "簇"


class MemoryFilesRoutes:
    """The ``RouteSource`` of these files; what is stored is in force at once."""

    def __init__(self, services: Services) -> None:
        self._services = services
        handlers: tuple[tuple[str, str, Answer], ...] = (
            ("GET", "/rag-tags", self._given(editing.EDITED_RAG_TAGS)),
            ("POST", "/rag-tags", self._stored(editing.EDITED_RAG_TAGS)),
            ("GET", "/semantic-groups", self._given(editing.EDITED_SEMANTIC_GROUPS)),
            ("POST", "/semantic-groups", self._stored(editing.EDITED_SEMANTIC_GROUPS)),
            ("GET", "/thinking-chains", self._given(editing.EDITED_CHAINS)),
            ("POST", "/thinking-chains", self._stored(editing.EDITED_CHAINS)),
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

    def _given(self, file: editing.EditedDocument) -> Answer:
        async def answer(_request: Request) -> Response:
            home = self._services.in_force.home
            try:
                version, _ = await asyncio.to_thread(file.version, home)
                document = await asyncio.to_thread(file.read, home)
            except (ValueError, OSError) as fault:
                return JsonResponse({"error": f"{both('文件无法读取', 'the file cannot be read')}: {fault}"}, 500)
            if document is None:
                raise NotFoundError(both("文件不存在", "there is no such file"))
            return JsonResponse(document, headers=etag(version))

        return answer

    def _stored(self, file: editing.EditedDocument) -> Answer:
        async def answer(request: Request) -> Response:
            document = await json_object(request)
            expected = expected_version(request, {})  # the body is the document itself, so only the header can say it
            home = self._services.in_force.home
            try:
                saved = await asyncio.to_thread(file.save_if, home, document, expected)
            except OSError as fault:
                reason = fault.strerror or str(fault)
                return JsonResponse({"error": f"{both('文件无法保存', 'the file cannot be stored')}: {reason}"}, 500)
            return JsonResponse({"message": both("已保存，立即生效", "Saved, and in force")}, headers=etag(saved))

        return telling(answer)

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
