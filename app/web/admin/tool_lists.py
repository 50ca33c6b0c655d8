"""The editor of tool lists for administrators: ``/admin_api/tool-list-editor`` (vcp-core 8.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.errors import both
from app.extend import DeclaredRoute, Json
from app.services import Services
from app.tools.tool_lists import ListedTool, ToolLists, listed_tools, read_choice, tool_list
from app.web.admin.bodies import admin_route, etag, expected_version, json_object
from app.web.errors import JsonResponse

PREFIX = "/tool-list-editor"


class ToolListRoutes:
    """The ``RouteSource`` of the editor."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = (
            admin_route(f"{PREFIX}/tools", self._tools),
            admin_route(f"{PREFIX}/configs", self._configs),
            admin_route(f"{PREFIX}/config/{{name:path}}", self._config),
            admin_route(f"{PREFIX}/config/{{name:path}}", self._save, "POST"),
            admin_route(f"{PREFIX}/config/{{name:path}}", self._delete, "DELETE"),
            admin_route(f"{PREFIX}/check-file/{{name:path}}", self._check),
            admin_route(f"{PREFIX}/export/{{name:path}}", self._export, "POST"),
            admin_route("/panel/tool-list-preview", self._preview, "POST"),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    def tools(self) -> list[ListedTool]:
        """The tools of now that a list can have."""
        return listed_tools(self._services.mcp.described_tools.specs())

    async def _tools(self, _request: Request) -> Response:
        return JsonResponse(
            {
                "tools": [
                    {
                        "name": tool.name,
                        "pluginName": tool.plugin,
                        "displayName": tool.display,
                        "description": tool.description,
                        "example": tool.example,
                    }
                    for tool in self.tools()
                ]
            }
        )

    async def _configs(self, _request: Request) -> Response:
        return JsonResponse({"configs": await asyncio.to_thread(self._lists().names)})

    async def _config(self, request: Request) -> Response:
        value, fingerprint = await asyncio.to_thread(self._lists().read, request.path_params["name"])
        return JsonResponse(value, headers=etag(fingerprint))

    async def _save(self, request: Request) -> Response:
        body = await json_object(request)
        read_choice(body)
        expected = expected_version(request, body)
        kept = {key: value for key, value in body.items() if key != "expected"}
        saved = await asyncio.to_thread(self._lists().write, request.path_params["name"], kept, expected)
        return JsonResponse({"status": "success", "message": both("配置已保存", "Saved")}, headers=etag(saved))

    async def _delete(self, request: Request) -> Response:
        await asyncio.to_thread(self._lists().delete, request.path_params["name"])
        return JsonResponse({"status": "success", "message": both("配置已删除", "Deleted")})

    async def _check(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._lists().text, request.path_params["name"])
        return JsonResponse({"exists": found is not None}, headers=etag(found.fingerprint) if found else None)

    async def _export(self, request: Request) -> Response:
        body = await json_object(request)
        text, expected = self._text(body), expected_version(request, body)
        path = await asyncio.to_thread(self._lists().export, request.path_params["name"], text, expected)
        return JsonResponse({"status": "success", "filePath": path})

    async def _preview(self, request: Request) -> Response:
        return JsonResponse({"text": self._text(await json_object(request))})

    def _text(self, body: Mapping[str, Json]) -> str:
        return tool_list(
            self.tools(),
            read_choice(body),
            with_header=body.get("includeHeader", True) is not False,
            with_examples=body.get("includeExamples", True) is not False,
        )

    def _lists(self) -> ToolLists:
        return ToolLists(self._services.in_force.home)
