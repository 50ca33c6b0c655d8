"""The page of VCPTavern: presets that put messages into conversations (memory.md 6.5; D77)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.prompt.placeholder_list import preset_names
from app.web.panel.frame import URL, Panel, panel_route

PLUGIN = "VCPTavern"
SHOWN = 1_000


class TavernPart:
    """The editor; the plugin's own routes, ``/admin_api/vcptavern``, give, save and try presets."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "VCPTavern preset 预设 注入 injection 酒馆"
        return (PanelPage("tavern", PageGroup.PROMPTS, "Tavern 预设", "Tavern presets", 30, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page."""
        return (panel_route("/tavern", self._show),)

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Presets by name."""
        names = await asyncio.to_thread(preset_names, self._panel.services.in_force.home)
        found = [name for name in names if words.lower() in name.lower()][:limit]
        return [SearchHit(name, name, f"{URL}/tavern?preset={name}", "Tavern 预设 / Tavern preset") for name in found]

    async def _show(self, request: Request) -> Response:
        services = self._panel.services
        names = await asyncio.to_thread(preset_names, services.in_force.home)
        current = request.query_params.get("preset", "")[:200]
        words = request.query_params.get("q", "").strip()[:100]
        shown = [name for name in names if words.lower() in name.lower()]
        works = any(step.name == PLUGIN for step in services.in_process.preprocessors())
        return self._panel.page(
            request,
            "tavern.html",
            "tavern",
            works=works,
            blocked=PLUGIN in services.found_plugins.blocked,
            names=shown[:SHOWN],
            total=len(names),
            words=words,
            chosen=current,
            is_new=bool(current) and current not in names,
        )
