"""``/admin_api/config``: ``config.env`` as text (vcp-core 8.2), and the copies of its earlier versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.config.problem import Problem
from app.config.snapshot import CONFIG_FILE
from app.errors import BadRequestError, both
from app.extend import DeclaredRoute
from app.protocol.half_characters import whole
from app.services import Services
from app.services.configuration import Configuration, SavedConfig
from app.web.admin.bodies import admin_route, etag, expected_version, json_object
from app.web.errors import JsonResponse


class ConfigRoutes:
    """The ``RouteSource`` of the main configuration. ``now`` gives an aware time."""

    def __init__(self, services: Services, now: Callable[[], datetime]) -> None:
        self._configuration = Configuration(services, now)
        self._routes = (
            admin_route("/config/main", self._text),
            admin_route("/config/main/raw", self._text),
            admin_route("/config/main", self._save, "POST"),
            admin_route("/config/backups", self._backups),
            admin_route("/config/backups/{name}", self._backup),
            admin_route("/config/backups/{name}/restore", self._restore, "POST"),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    async def _text(self, _request: Request) -> Response:
        file = await self._configuration.read()
        return JsonResponse({"content": file.text}, headers=etag(file.fingerprint))

    async def _save(self, request: Request) -> Response:
        body = await json_object(request)
        content = body.get("content")
        if not isinstance(content, str):
            raise BadRequestError(both("content 应为文本", "Invalid content format. String expected."))
        saved = await self._configuration.save(whole(content), expected_version(request, body))
        return _saved(saved, both("主配置已保存", "the main configuration is saved"))

    async def _backups(self, _request: Request) -> Response:
        found = await self._configuration.backups()
        listed = [{"name": copy.name, "made": copy.made.isoformat(), "size": copy.size} for copy in found]
        return JsonResponse({"backups": listed})

    async def _backup(self, request: Request) -> Response:
        return JsonResponse({"content": await self._configuration.backup(request.path_params["name"])})

    async def _restore(self, request: Request) -> Response:
        body = await json_object(request)
        name = request.path_params["name"]
        saved = await self._configuration.restore(name, expected_version(request, body))
        return _saved(saved, both(f"{CONFIG_FILE} 已恢复为备份 {name}", f"{CONFIG_FILE} is the backup {name} again"))


def _saved(saved: SavedConfig, message: str) -> Response:
    """What a save answers: in ``message`` what people should know, beside it the same for programs."""
    told = [message]
    if saved.review.restart:
        names = ", ".join(saved.review.restart)
        told.append(both(f"重启后生效：{names}", f"in force after a restart: {names}"))
    if saved.saved.in_place:
        told.append(both("文件无法替换，已直接覆盖写入", "the file could not be replaced, it was written over"))
    content: dict[str, Any] = {
        "message": " | ".join(told),
        "restart": list(saved.review.restart),
        "problems": [_problem(problem) for problem in saved.review.problems],
        "backup": saved.saved.backup,
        "inPlace": saved.saved.in_place,
    }
    return JsonResponse(content, headers=etag(saved.saved.fingerprint))


def _problem(problem: Problem) -> dict[str, Any]:
    return {"line": problem.line, "key": problem.key, "reason": problem.reason}
