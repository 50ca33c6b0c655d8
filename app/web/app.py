"""The web application: routes, their access, and the gate around them."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.extend import Access, Reloaded, RouteSource
from app.observe.action_log import ActionLog
from app.services import Services
from app.services.mcp_http import McpHttp
from app.services.mcp_shelves import give_shelves
from app.web.addresses import client_address
from app.web.admin.agent_assistant import AgentAssistantRoutes
from app.web.admin.config import ConfigRoutes
from app.web.admin.forum import ForumRoutes
from app.web.admin.mcp import McpServerRoutes
from app.web.admin.operator_files import OperatorFileRoutes
from app.web.admin.plugins import PluginRoutes
from app.web.admin.prompt_files import PromptFilesRoutes
from app.web.admin.system import SystemRoutes
from app.web.admin.tool_lists import ToolListRoutes
from app.web.admin.traces import TracesRoutes
from app.web.admin_access import AdminAccess
from app.web.admission import Admission, LimitsOfNow, admission
from app.web.approvals import approvals_routes
from app.web.chat import ChatRoute
from app.web.cut_off import CutOff
from app.web.dailynotes import DailyNotesRoutes
from app.web.declared import AccessTable, RefusedRouteError, served_routes
from app.web.embeddings import EmbeddingsRoute
from app.web.errors import OPENAI_PATHS, guarded, install_error_handlers
from app.web.gate import Gate
from app.web.health import health_routes
from app.web.human_tool import human_tool_routes
from app.web.interrupt import interrupt_routes
from app.web.mcp import MCP_PATH, McpRoutes
from app.web.mcp_servers import mcp_servers_routes
from app.web.memory import memory_routes
from app.web.memory_explain import memory_explain_routes
from app.web.memory_files import MemoryFilesRoutes
from app.web.metrics import MetricsRoute
from app.web.models import models_routes
from app.web.nodes import nodes_routes
from app.web.openapi import describe_routes
from app.web.panel.action_notes import ActionNotes
from app.web.panel.parts import PanelRoutes
from app.web.panel.sessions import Sessions
from app.web.pass_through import PassThrough
from app.web.plugin_callback import CALLBACK_PATHS, plugin_callback_routes
from app.web.schedule_task import schedule_task_routes
from app.web.socket_gate import SocketGate
from app.web.tools_openapi import OpenApiTools

log = logging.getLogger(__name__)

CHAT_PATHS = {"/v1/chat/completions": False, "/v1/chatvcp/completions": True}
"""Path of each chat route, and whether it shows tool results whatever the setting says."""

OWN_ACCESS = {"/healthz": Access.OPEN, "/readyz": Access.OPEN, **dict.fromkeys(CALLBACK_PATHS, Access.OWN)}
"""Templates of the server's own routes that do not need the key. With ``Access.OWN`` a route checks its callers."""


def create_app(services: Services, shared: Admission | None = None) -> ASGIApp:
    """The ASGI application; it starts and stops the services with its lifespan. ``shared`` is for further listeners.

    Raises RefusedRouteError when a part brings a route that cannot be served as it is declared.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with services.running_parts(), services.overview.running():
            routes.renew()  # plugins have routes when they have started
            try:
                yield
            finally:
                await services.stopping.end(mcp_http.stop)

    app = FastAPI(title="vcp-server", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.router.redirect_slashes = False  # the gate has found the path that was meant
    shared = shared or admission(services)
    blocks = shared.blocks
    credentials = partial(_credentials, services)
    sessions = Sessions(services.in_force.home, credentials, time.time)
    admin = AdminAccess(credentials, time.monotonic, sessions.valid, lambda: services.port)
    panel = PanelRoutes(services, sessions, admin.attempts, blocks)
    install_error_handlers(app, panel.missing)
    chat = {path: ChatRoute(services, show_vcp=show_vcp) for path, show_vcp in CHAT_PATHS.items()}
    for path, route in chat.items():
        app.router.routes.append(Route(path, route, methods=["POST"]))
    app.router.routes.append(Route("/v1/embeddings", EmbeddingsRoute(services), methods=["POST"]))
    groups = (
        models_routes(services),
        interrupt_routes(services),
        human_tool_routes(services, blocks),
        health_routes(services),
        schedule_task_routes(services),
        plugin_callback_routes(services, blocks),
        nodes_routes(lambda: services.nodes.list()),
        approvals_routes(services),
        mcp_servers_routes(services),
        memory_routes(services),
        memory_explain_routes(services),
    )
    for group in groups:
        app.include_router(group)
    own = [route for holder in (app, *groups) for route in holder.routes if isinstance(route, Route)]
    mcp_http = McpHttp(services.mcp.serving.door, lambda: services.settings, services.stopping)
    give_shelves(services)
    mcp = McpRoutes(services, blocks, mcp_http)
    further = (MetricsRoute(services), PassThrough(services), mcp, OpenApiTools(services), DailyNotesRoutes(services))
    for_admins = (
        MemoryFilesRoutes(services),
        ForumRoutes(services),
        ConfigRoutes(services, lambda: datetime.now(UTC)),
        PluginRoutes(services),
        OperatorFileRoutes(services),
        McpServerRoutes(services),
        SystemRoutes(services),
        PromptFilesRoutes(services),
        ToolListRoutes(services),
        AgentAssistantRoutes(services),
        TracesRoutes(services),
        panel,
    )
    routes = _Routes(app, own, lambda: (*further, *for_admins, *services.routes))
    describe_routes(app, CHAT_PATHS, lambda: routes.gate.table)
    routes.gate = Gate(
        CutOff(
            _ChatFirst({path: guarded(route) for path, route in chat.items()}, app), lambda: services.stopping.begun
        ),
        key=lambda: services.key,
        table=routes.renewed(),
        trusted_proxies=lambda: services.settings.trusted_proxies,
        blocks=blocks,
        cors_origins=lambda: services.settings.cors_origins,
        admin=admin,
        sockets=_socket_gate(services, shared),
        tell_themselves=CHAT_PATHS,  # one line for each turn is enough
        origins_of={MCP_PATH: mcp.allowed_origin},
        acted=ActionNotes(ActionLog(services.in_force.home), services.background).add,
    )
    if services.in_force.owns_home:  # else nobody knows of this server, and nobody could answer
        services.approvals.open = True
    services.metrics.watch(
        "vcp_blocked_logins", "Addresses that may not log in as administrator now.", admin.attempts.blocked_addresses
    )
    services.overview.blocked = lambda: blocks.count() + admin.attempts.blocked_addresses()
    services.events.listen(lambda _event: routes.renew(), Reloaded)
    return routes.gate


def _credentials(services: Services) -> tuple[str, str]:
    return services.settings.admin_username, services.settings.admin_password


def _socket_gate(services: Services, shared: Admission) -> SocketGate:
    return SocketGate(
        [declared for source in services.sockets for declared in source.sockets()],
        blocks=shared.blocks,
        address=lambda scope: client_address(scope, services.settings.trusted_proxies),
        limits=LimitsOfNow(lambda: services.settings, lambda settings: settings.socket_frames_per_second),
        traffic=shared.traffic,
        connections=lambda: services.settings.socket_max_connections,
        stopping=lambda: services.stopping.begun,
    )


class _Routes:
    """The routes that further parts bring, in the application and in the gate; both are replaced at one moment."""

    gate: Gate

    def __init__(self, app: FastAPI, own: Sequence[Route], sources: Callable[[], Sequence[RouteSource]]) -> None:
        self._app = app
        self._own_routes = list(app.router.routes)
        self._own = own
        self._sources = sources

    def renewed(self) -> AccessTable:
        """Ask all sources, serve what they bring, and return the table for the gate; raises RefusedRouteError."""
        served = served_routes(self._sources(), self._own, OWN_ACCESS, sorted(OPENAI_PATHS))
        self._app.router.routes = [*self._own_routes, *served.added]
        self._app.openapi_schema = None
        return served.table

    def renew(self) -> None:
        """Ask all sources anew; when a part of our own is at fault, everything stays as it was."""
        try:
            self.gate.table = self.renewed()
        except RefusedRouteError as error:
            log.error("the routes stay as they were: %s", error.english)


class _ChatFirst:
    """Leads chat requests past the framework's layers, which do nothing for them and cost a tenth of a request."""

    def __init__(self, chat: Mapping[str, ASGIApp], app: ASGIApp) -> None:
        self._chat = chat
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chat = self._chat.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (self._app if chat is None else chat)(scope, receive, send)
