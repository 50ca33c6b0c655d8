"""All parts of the panel, and the routes that they make together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.extend import DeclaredRoute, PanelPage
from app.services import Services
from app.web.admin_access import LoginAttempts
from app.web.blocking import AddressBlocks
from app.web.panel.actions import ActionsPart
from app.web.panel.agent_assistant import AgentAssistantPart
from app.web.panel.agents import AgentsPart
from app.web.panel.approvals import ApprovalsPart
from app.web.panel.attention import AttentionPart
from app.web.panel.blocked import BlockedPart
from app.web.panel.clients import ClientsPart
from app.web.panel.config import ConfigPart
from app.web.panel.dashboard import DashboardPart
from app.web.panel.forum import ForumPart
from app.web.panel.frame import URL, Panel, PanelPart, panel_route
from app.web.panel.login import LoginPart
from app.web.panel.logs import LogsPart
from app.web.panel.mcp import McpPart
from app.web.panel.media_cache import MediaCachePart
from app.web.panel.memory_files import MemoryFilesPart
from app.web.panel.memory_index import MemoryIndexPart
from app.web.panel.news import NewsPart
from app.web.panel.notebooks import NotebooksPart
from app.web.panel.playground import PlaygroundPart
from app.web.panel.plugin_pages import PluginPagesPart
from app.web.panel.plugins import PluginsPart
from app.web.panel.preprocessors import PreprocessorsPart
from app.web.panel.recall import RecallPart
from app.web.panel.results import ResultsPart
from app.web.panel.schedules import SchedulesPart
from app.web.panel.search import SearchPart
from app.web.panel.sessions import Sessions
from app.web.panel.setup import SetupPart
from app.web.panel.static import PREFIX, Assets
from app.web.panel.tavern import TavernPart
from app.web.panel.tool_lists import ToolListsPart
from app.web.panel.traces import TracesPart
from app.web.panel.variables import VariablesPart

PARTS: Sequence[Callable[[Panel], PanelPart]] = (
    ActionsPart,
    AgentAssistantPart,
    AgentsPart,
    ApprovalsPart,
    AttentionPart,
    ClientsPart,
    ConfigPart,
    DashboardPart,
    ForumPart,
    LogsPart,
    McpPart,
    MediaCachePart,
    MemoryFilesPart,
    MemoryIndexPart,
    NewsPart,
    NotebooksPart,
    PlaygroundPart,
    PluginPagesPart,
    PluginsPart,
    PreprocessorsPart,
    RecallPart,
    ResultsPart,
    SchedulesPart,
    SetupPart,
    TavernPart,
    ToolListsPart,
    TracesPart,
    VariablesPart,
)
"""Each makes one part of the panel from the frame; the order says nothing."""


class PanelRoutes:
    """The ``RouteSource`` of the whole panel."""

    def __init__(self, services: Services, sessions: Sessions, attempts: LoginAttempts, blocks: AddressBlocks) -> None:
        self._assets = Assets()
        self._panel = Panel(services, self._assets, self._pages)
        self._parts: tuple[PanelPart, ...] = (
            *(make(self._panel) for make in PARTS),
            BlockedPart(self._panel, blocks, attempts),
        )
        self._further: tuple[PanelPart, ...] = (
            LoginPart(self._panel, sessions, attempts),
            SearchPart(self._panel, self._parts),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """The routes of now: plugins may bring further ones."""
        static = panel_route(f"{PREFIX.removeprefix(URL)}{{version}}/{{name:path}}", self._assets.answer)
        parts = (*self._further, *self._parts)
        return (static, *(self._guarded(declared) for part in parts for declared in part.routes()))

    def missing(self, request: Request) -> Response | None:
        """The page of an address of the panel that nothing has; None for a program, and outside of the panel."""
        wanted = request.method == "GET" and "text/html" in request.headers.get("accept", "").lower()
        return self._panel.missing(request) if wanted and request.scope["path"].startswith(f"{URL}/") else None

    def _guarded(self, declared: DeclaredRoute) -> DeclaredRoute:
        route = declared.route
        assert isinstance(route, Route)
        guarded = Route(route.path, self._panel.guarded(route.endpoint), methods=list(route.methods or ()))
        return DeclaredRoute(guarded, declared.access, declared.path_key, declared.brought_by)

    def _pages(self) -> Sequence[PanelPage]:
        return [page for part in self._parts for page in part.pages()]
