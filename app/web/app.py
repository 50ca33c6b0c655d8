"""The web application: routes, their access, and the gate around them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.services import Services
from app.web.blocking import AddressBlocks
from app.web.chat import ChatRoute
from app.web.declared import declared_routes
from app.web.errors import OPENAI_PATHS, guarded, install_error_handlers
from app.web.gate import Gate
from app.web.health import health_routes
from app.web.human_tool import human_tool_routes
from app.web.interrupt import interrupt_routes
from app.web.models import models_routes
from app.web.openapi import describe_routes
from app.web.paths import PathTable

CHAT_PATHS = {"/v1/chat/completions": False, "/v1/chatvcp/completions": True}
"""Path of each chat route, and whether it shows tool results whatever the setting says."""

OPEN_PATHS = ("/healthz", "/readyz")


def create_app(services: Services) -> ASGIApp:
    """The ASGI application; it starts and stops the services with its lifespan.

    Raises ConfigError when a part brings a route that cannot be served as it is declared.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with services.running_parts():
            yield

    app = FastAPI(title="vcp-server", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.router.redirect_slashes = False  # the gate has found the path that was meant
    blocks = AddressBlocks(
        services.config.home / "ip_blacklist.json",
        enabled=lambda: services.settings.ip_blacklist,
        clock=time.monotonic,
    )
    install_error_handlers(app)
    chat = {path: ChatRoute(services, show_vcp=show_vcp) for path, show_vcp in CHAT_PATHS.items()}
    for path, route in chat.items():
        app.router.routes.append(Route(path, route, methods=["POST"]))
    groups = (
        models_routes(services),
        interrupt_routes(services),
        human_tool_routes(services, blocks),
        health_routes(services),
    )
    for group in groups:
        app.include_router(group)
    own = [route for holder in (app, *groups) for route in holder.routes if isinstance(route, Route)]
    added, open_paths = declared_routes(services.routes, own, OPEN_PATHS)
    app.router.routes.extend(added)
    describe_routes(app, CHAT_PATHS, open_paths)
    return Gate(
        _ChatFirst({path: guarded(route) for path, route in chat.items()}, app),
        key=lambda: services.key,
        open_paths=open_paths,
        paths=PathTable(dict.fromkeys((*(route.path for route in (*own, *added)), *sorted(OPENAI_PATHS)))),
        trusted_proxies=lambda: services.settings.trusted_proxies,
        blocks=blocks,
        cors_origins=lambda: services.settings.cors_origins,
    )


class _ChatFirst:
    """Leads chat requests past the framework's layers, which do nothing for them and cost a tenth of a request."""

    def __init__(self, chat: Mapping[str, ASGIApp], app: ASGIApp) -> None:
        self._chat = chat
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chat = self._chat.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (self._app if chat is None else chat)(scope, receive, send)
