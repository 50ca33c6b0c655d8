"""The page of AgentAssistant: the agents that other agents can talk to (7.5, 8.2)."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.web.admin.agent_assistant import PLUGIN
from app.web.panel.frame import Panel, panel_route
from app.web.panel.prompt_texts import models_known


class AgentAssistantPart:
    """The form; ``/admin_api/agent-assistant/config`` gives and saves what is in it."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "AgentAssistant 女仆 通讯 assistant"
        return (PanelPage("agent-assistant", PageGroup.PROMPTS, "Agent 助手", "Agent assistant", 60, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page."""
        return (panel_route("/agent-assistant", self._show),)

    async def _show(self, request: Request) -> Response:
        services = self._panel.services
        there = any(plugin.name == PLUGIN for plugin in services.found_plugins.plugins)
        blocked = PLUGIN in services.found_plugins.blocked
        return self._panel.page(
            request,
            "agent_assistant.html",
            "agent-assistant",
            there=there,
            blocked=blocked,
            models=models_known(services),
        )
