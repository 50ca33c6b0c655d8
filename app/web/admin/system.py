"""The system for administrators (vcp-core 8.2): processes, resources, the hourly code, the log, the restart (D87)."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from app.errors import BadRequestError, NotFoundError, both
from app.extend import DeclaredRoute, Json
from app.observe.history import RANGES
from app.observe.log_pages import LogPiece, log_files, log_path, read_backward, read_forward
from app.services import Services
from app.web.admin.bodies import admin_route
from app.web.errors import JsonResponse

FULL_BYTES = 16 * 1024 * 1024
"""Most of a file of the log that one answer holds; of a longer one it is the end."""

PIECE_BYTES = 2 * 1024 * 1024
"""Most that one answer to ``offset`` or ``before`` holds."""

RESTARTING = both("正在重启服务器", "the server restarts")


class SystemRoutes:
    """The ``RouteSource`` of this group."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = (
            admin_route("/system-monitor/pm2/processes", self._processes),
            admin_route("/system-monitor/system/resources", self._resources),
            admin_route("/user-auth-code", self._auth_code),
            admin_route("/server-log", self._log),
            admin_route("/server-log/files", self._log_files),
            admin_route("/server-log/clear", self._clear_log, "POST"),
            admin_route("/server/restart", self._restart, "POST"),
            admin_route("/panel/history", self._history),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    async def _processes(self, _request: Request) -> Response:
        """Our process and all below it in the shape of a process manager; ``uptime`` is the start in ms, as there."""
        try:
            found = await asyncio.to_thread(self._services.overview.machine.processes)
        except OSError as error:
            return _failed(both("无法读取进程", "the system does not tell its processes"), str(error))
        listed = [
            {
                "name": "vcp-server" if one.pid == os.getpid() else one.name,
                "pid": one.pid,
                "status": "online" if one.pid == os.getpid() else one.status,
                "cpu": one.processor,
                "memory": one.resident,
                "uptime": round(one.began * 1000),
                "restarts": 0,
            }
            for one in found
        ]
        return JsonResponse({"success": True, "processes": listed})

    async def _resources(self, _request: Request) -> Response:
        try:
            now = await asyncio.to_thread(self._services.overview.machine.now)
        except OSError as error:
            return _failed(both("无法读取系统资源", "the system does not tell its resources"), str(error))
        own = {
            "pid": os.getpid(),
            "memory": {
                "rss": now.resident,
                "heapTotal": now.resident,
                "heapUsed": now.private,
                "external": 0,
                "arrayBuffers": 0,
            },
            "uptime": round(max(0.0, time.time() - self._services.overview.began), 3),
            "version": f"Python {platform.python_version()}",
            "platform": sys.platform,
            "arch": platform.machine(),
        }
        memory = {"total": now.total, "used": now.used, "free": now.free}
        system = {"memory": memory, "cpu": {"usage": now.processor}, "nodeProcess": own}
        return JsonResponse({"success": True, "system": system})

    async def _auth_code(self, _request: Request) -> Response:
        code = await asyncio.to_thread(self._services.auth_code)
        if code is None:
            return _failed(
                both("读取验证码失败", "the code cannot be read"),
                both("插件 UserAuth 尚未生成验证码", "the plugin UserAuth has not made one yet"),
            )
        return JsonResponse({"success": True, "code": code})

    async def _log(self, request: Request) -> Response:
        """The newest file of the log, or ``file``: whole, or from ``offset`` on, or what stands before ``before``."""
        query = request.query_params
        offset, before = _number(query.get("offset", ""), "offset"), _number(query.get("before", ""), "before")
        home = self._services.config.home
        name = query.get("file", "")
        if not name and not self._services.settings.server_log:
            told = both("没有写入日志文件（ServerLog=false）", "no log is written to the disk (ServerLog=false)")
            return JsonResponse({"error": told, "content": told}, 503)
        try:
            path = await asyncio.to_thread(log_path, home, name)
            if before is not None:
                piece = await asyncio.to_thread(read_backward, path, before, PIECE_BYTES)
                renewed = False
            elif offset is not None:
                piece = await asyncio.to_thread(read_forward, path, offset, PIECE_BYTES)
                renewed = offset > piece.size  # the file is another one, or was emptied
            else:
                piece, renewed = await asyncio.to_thread(_whole, path), False
            if renewed:
                piece = await asyncio.to_thread(_whole, path)
        except NotFoundError as error:
            return JsonResponse({"error": error.message, "content": error.message}, 404)
        return JsonResponse(
            {
                "content": piece.text,
                "path": str(path),
                "file": path.name,
                "begin": piece.begin,
                "offset": piece.end,
                "fileSize": piece.size,
                "needFullReload": renewed,
            }
        )

    async def _log_files(self, _request: Request) -> Response:
        files = await asyncio.to_thread(log_files, self._services.config.home)
        return JsonResponse(
            {"files": [{"name": file.name, "size": file.size, "modified": file.modified} for file in files]}
        )

    async def _clear_log(self, _request: Request) -> Response:
        """Empty the newest file; older ones stay."""
        path = await asyncio.to_thread(log_path, self._services.config.home)
        await asyncio.to_thread(os.truncate, path, 0)
        return JsonResponse({"success": True, "message": both("日志已清空", "the log is empty now"), "path": str(path)})

    async def _restart(self, _request: Request) -> Response:
        begun = await self._services.overview.restart.ask()
        return JsonResponse({"message": RESTARTING, "already": not begun})

    async def _history(self, request: Request) -> Response:
        name = request.query_params.get("range", "hour")
        if name not in RANGES:
            words = ", ".join(RANGES)
            raise BadRequestError(both(f"range 应为 {words} 之一", f"range is one of {words}"))
        told = self._services.overview.history.told(name)
        return JsonResponse(
            {"range": told.range, "seconds": told.seconds, "times": told.times, "series": dict(told.series)}
        )


def _whole(path: Path) -> LogPiece:
    return read_backward(path, None, FULL_BYTES)


def _number(text: str, name: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequestError(both(f"{name} 应为不小于 0 的整数", f"{name} is a whole number from 0 on"))
    return int(text)


def _failed(error: str, details: Json) -> Response:
    return JsonResponse({"success": False, "error": error, "details": details}, 500)
