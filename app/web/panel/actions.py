"""What administrators have changed, and who did it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.observe.action_log import ActionLog
from app.web.panel.frame import Panel, panel_route

SHOWN = 500


class ActionsPart:
    """The log of actions, newest first."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        return (PanelPage("actions", PageGroup.SYSTEM, "操作记录", "Admin actions", 90, "audit 审计 log"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page."""
        return (panel_route("/actions", self._show),)

    async def _show(self, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()[:200]
        actions = await asyncio.to_thread(ActionLog(self._panel.services.in_force.home).last, SHOWN)
        shown = [one for one in actions if words.lower() in f"{one.path} {one.address} {one.method}".lower()]
        return self._panel.page(request, "actions.html", "actions", actions=shown, words=words, limit=SHOWN)
