"""The page of tool lists: choose tools, describe them in other words, make the text of a variable (8.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.tools.tool_lists import ToolLists
from app.web.panel.frame import URL, Panel, panel_route


class ToolListsPart:
    """The editor; its tools, choices and texts come from ``/admin_api/tool-list-editor``."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "tool list editor 工具清单 TVStxt ToolConfigs"
        return (PanelPage("tool-lists", PageGroup.PROMPTS, "工具清单", "Tool lists", 50, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page."""
        return (panel_route("/tool-lists", self._show),)

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Stored lists by name."""
        names = [name for name in await asyncio.to_thread(self._names) if words.lower() in name.lower()]
        return [
            SearchHit(name, name, f"{URL}/tool-lists?config={name}", "工具清单 / Tool list") for name in names[:limit]
        ]

    def _names(self) -> list[str]:
        return ToolLists(self._panel.services.in_force.home).names()

    async def _show(self, request: Request) -> Response:
        names = await asyncio.to_thread(self._names)
        chosen = request.query_params.get("config", "")[:200]
        return self._panel.page(request, "tool_lists.html", "tool-lists", names=names, chosen=chosen)
