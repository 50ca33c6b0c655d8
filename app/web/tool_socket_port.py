"""The extra port of tool clients: its only path is their protocol (WS-16, D63, D64)."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import ConfigError, NotFoundError, both
from app.extend import DeclaredSocket
from app.protocol.loopback import is_loopback
from app.services import Services
from app.web.addresses import client_address
from app.web.admission import Admission, LimitsOfNow
from app.web.errors import error_response
from app.web.socket_gate import SocketGate

TOOL_PATH = "/ws/tools"
"""Where tool clients connect on the server's own port."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\s]+)(?::\d+)?")
_ONLY_SOCKETS = both("此端口只提供工具客户端的 WebSocket", "this port serves only WebSockets of tool clients")


def tool_socket_app(services: Services, admission: Admission) -> ASGIApp:
    """The ASGI application of the port; ``services`` must run before anybody is let in.

    Without a token only this machine comes in, and of web pages only those of this machine or of
    ``ToolSocketOrigins``. The address that the port is bound to is the one of now. Raises ConfigError when nobody
    serves tool clients.
    """
    return _ToolSocketPort(
        SocketGate(
            [_declared(services)],
            blocks=admission.blocks,
            address=lambda scope: client_address(scope, services.settings.trusted_proxies),
            limits=LimitsOfNow(lambda: services.settings, lambda settings: settings.tool_socket_frames_per_second),
            traffic=admission.traffic,
            connections=lambda: services.settings.tool_socket_max_connections,
            stopping=lambda: services.stopping.begun or not services.started,
        )
    )


def _declared(services: Services) -> DeclaredSocket:
    bound_to = services.settings.tool_socket_host

    def keys() -> tuple[str, ...]:
        token = services.settings.tool_socket_token
        return (token,) if token else ()

    def open_to(origin: str, host: str) -> bool:
        if keys() or not is_loopback(bound_to):
            return False
        return is_own_host(host) and is_allowed_origin(origin, services.settings.tool_socket_origins)

    for source in services.sockets:
        for declared in source.sockets():
            if declared.path == TOOL_PATH:
                return replace(declared, path="/", key_prefix="", keys=keys, identify=None, open_to=open_to)
    raise ConfigError(
        both(
            "没有任何部分提供工具客户端的协议，请去掉 ToolSocketPort",
            "nothing serves tool clients; remove ToolSocketPort",
        )
    )


def is_own_host(host: str) -> bool:
    """Whether a ``Host`` names this machine: a page whose name was made to point here (DNS rebinding) names its own."""
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found[1])


def is_allowed_origin(origin: str, allowed: tuple[str, ...]) -> bool:
    """Whether a page of this ``Origin`` may connect without a token; programs send none."""
    if not origin or "*" in allowed or origin in allowed:
        return True
    with suppress(ValueError):
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and is_own_host(parts.netloc)
    return False


class _ToolSocketPort:
    """WebSockets through the gate; everything else is answered with 404."""

    def __init__(self, gate: SocketGate) -> None:
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._gate(scope, receive, send)
        elif scope["type"] == "http":
            await error_response("", NotFoundError(_ONLY_SOCKETS))(scope, receive, send)
        else:
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})
