"""JSON files of the operator as text: MCP servers, groups of tools, approvals, those as an object too (8.4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.config.edit_lock import edit_lock
from app.config.json_file import JsonFileError, parsed_object
from app.config.operator_file import OperatorFile
from app.errors import BadRequestError, VcpError, both
from app.extend import DeclaredRoute
from app.services import Services
from app.services.in_force import InForce
from app.services.operator_files import approvals_of, groups_of, servers_of
from app.web.admin.bodies import Answer, admin_route, content_of, etag, expected_version, json_object
from app.web.errors import JsonResponse

BODY_LIMIT = 4 * 1024 * 1024
"""Bytes of a request body: a file of 1 MiB, escaped."""

FILES: Mapping[str, Callable[[InForce], OperatorFile]] = {
    "mcp-servers": servers_of,
    "tool-groups": groups_of,
    "tool-approval-config": approvals_of,
}
"""The files, by the beginning of their address."""


class OperatorFileRoutes:
    """The ``RouteSource`` of these files. All of them are read as they are at their next use."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = (
            *(
                admin_route(f"/{name}/file", answer(file), method)
                for name, file in FILES.items()
                for method, answer in (("GET", self._reading), ("POST", self._writing))
            ),
            admin_route("/tool-approval-config", self._rules),
            admin_route("/tool-approval-config", self._save_rules, "POST"),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    def _reading(self, file: Callable[[InForce], OperatorFile]) -> Answer:
        async def read(_request: Request) -> Response:
            one = file(self._services.in_force)
            edited = await asyncio.to_thread(one.read)
            problems = await asyncio.to_thread(one.problems, edited.text)
            return JsonResponse({"content": edited.text, "problems": list(problems)}, headers=etag(edited.fingerprint))

        return read

    def _writing(self, file: Callable[[InForce], OperatorFile]) -> Answer:
        async def write(request: Request) -> Response:
            body = await json_object(request, BODY_LIMIT)
            return await self._save(file, content_of(body), expected_version(request, body))

        return write

    async def _save(self, file: Callable[[InForce], OperatorFile], text: str, expected: str | None) -> Response:
        in_force = self._services.in_force
        one = file(in_force)
        version, odd = await asyncio.to_thread(one.save, text, expected, edit_lock(in_force.home))
        message = both(f"{one.path.name} 已保存。", f"{one.path.name} is saved.")
        return JsonResponse({"message": message, "problems": list(odd)}, headers=etag(version))

    async def _rules(self, _request: Request) -> Response:
        one = approvals_of(self._services.in_force)
        edited = await asyncio.to_thread(one.read)
        try:
            value, _problems = parsed_object(edited.text.encode("utf-8", "replace"), one.path.name, JsonFileError)
        except JsonFileError as error:
            raise VcpError(
                both(f"{one.path.name} 无法使用", f"{one.path.name} cannot be used") + f": {error}"
            ) from None
        return JsonResponse(value, headers=etag(edited.fingerprint))

    async def _save_rules(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        rules = body.get("config")
        if not isinstance(rules, dict):
            raise BadRequestError(both("缺少对象 config", "Invalid request body: config is an object"))
        text = json.dumps(rules, ensure_ascii=False, indent=2) + "\n"
        return await self._save(approvals_of, text, expected_version(request, body))
