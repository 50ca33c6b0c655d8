"""The dashboard: how the server is now and was lately, who is connected, what needs attention, the restart (D87)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.hub.clients import ClientType
from app.services import Services
from app.web.errors import JsonResponse
from app.web.panel.frame import URL, Panel, panel_route

if TYPE_CHECKING:
    from app.observe.machine import MachineNow, ProcessNow

MAX_ROWS = 50
"""Most upstreams, nodes and processes in one list; the rest is counted."""

CLIENTS: Mapping[ClientType, tuple[str, str]] = {
    ClientType.VCP_LOG: ("通知 VCPLog", "Notices (VCPLog)"),
    ClientType.VCP_INFO: ("内部过程 VCPInfo", "Inner workings (VCPInfo)"),
    ClientType.NODE: ("分布式节点", "Far nodes"),
    ClientType.CHROME_OBSERVER: ("浏览器（观察）", "Browsers that are watched"),
    ClientType.CHROME_CONTROL: ("浏览器（控制）", "Browsers that are controlled"),
    ClientType.ADMIN_PANEL: ("管理面板", "Admin panels"),
    ClientType.TOOL_CLIENT: ("工具客户端", "Tool clients"),
}
"""Types of clients in words."""


class DashboardPart:
    """``/AdminPanel/`` and the pieces that it asks for anew every few seconds."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """The first page."""
        return (PanelPage("", PageGroup.OVERVIEW, "仪表盘", "Dashboard", 0, "cpu memory tokens 重启 restart 验证码"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page, its pieces, and the restart."""
        return (
            panel_route("", self._show),
            panel_route("/", self._show),
            panel_route("/dashboard/now", self._now),
            panel_route("/dashboard/parts", self._parts),
            panel_route("/dashboard/code", self._code),
            panel_route("/restart", self._restart, "POST"),
            panel_route("/restart/state", self._state),
        )

    async def _show(self, request: Request) -> Response:
        services = self._panel.services
        pages = {page.path for group in self._panel.navigation().values() for page in group}
        return self._panel.page(
            request,
            "dashboard.html",
            "",
            began=services.overview.began,
            no_model=not services.config.has_model_api,
            pages=pages,
            zone=services.config.zone.key,
            **await self._figures(),
            **await self._listed(),
        )

    async def _now(self, request: Request) -> Response:
        return self._panel.fragment(request, "dashboard_now.html", **await self._figures())

    async def _parts(self, request: Request) -> Response:
        return self._panel.fragment(request, "dashboard_parts.html", **await self._listed())

    async def _code(self, request: Request) -> Response:
        code = await asyncio.to_thread(self._panel.services.auth_code)
        return self._panel.fragment(request, "dashboard_code.html", code=code)

    async def _restart(self, request: Request) -> Response:
        """For scripts JSON, for others the page that waits; a server that cannot restart says why (``guarded``)."""
        began = self._panel.services.overview.began
        begun = await self._panel.services.overview.restart.ask()
        if "application/json" in request.headers.get("accept", ""):
            return JsonResponse({"began": began, "already": not begun})
        answer = self._panel.page(request, "restarting.html", "")
        answer.headers["Refresh"] = f"8; url={URL}/"
        return answer

    async def _state(self, _request: Request) -> Response:
        """Which start of the server this is, and whether it serves; the page that waits asks for it."""
        services = self._panel.services
        ready = services.started and not services.stopping.begun
        return JsonResponse({"began": services.overview.began, "ready": ready})

    async def _figures(self) -> dict[str, Any]:
        services = self._panel.services
        machine = await asyncio.to_thread(self._machine)
        told = services.overview.history.told("hour")
        return {
            "machine": machine,
            "ready": services.ready,
            "started": services.started,
            "running": len(services.running),
            "uptime": max(0.0, time.time() - services.overview.began),
            "hour": {name: sum(value or 0 for value in points) for name, points in told.series.items()},
            "clients": sum(_clients(services, kind) for kind in ClientType),
        }

    def _machine(self) -> MachineNow | None:
        try:
            return self._panel.services.overview.machine.now()
        except OSError:
            return None  # the page shows a dash; the reason is in the log, once

    def _processes(self) -> Sequence[ProcessNow]:
        try:
            return self._panel.services.overview.machine.processes()
        except OSError:
            return ()

    async def _listed(self) -> dict[str, Any]:
        services = self._panel.services
        processes = await asyncio.to_thread(self._processes)
        return {
            "upstreams": services.upstream.status()[:MAX_ROWS],
            "nodes": services.nodes.list()[:MAX_ROWS],
            "connected": [(*CLIENTS[kind], count) for kind in ClientType if (count := _clients(services, kind))],
            "processes": processes[:MAX_ROWS],
            "more_processes": max(0, len(processes) - MAX_ROWS),
            "own": os.getpid(),
        }


def _clients(services: Services, kind: ClientType) -> int:
    return services.hub.count(kind) or services.tool_clients.count(kind)
