"""``/mcp``: the Model Context Protocol over HTTP, and who is let in there (mcp.md MCP-40 to MCP-47, MCP-70, MCP-71)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from app.config.addresses import own_address
from app.errors import ForbiddenError, NotFoundError, UnauthorizedError, VcpError, both
from app.extend import Access, DeclaredRoute
from app.mcp.server.principal import KEY_HOLDER, HttpCaller, Principal
from app.protocol.loopback import is_loopback
from app.services import Services
from app.services.mcp_http import McpHttp
from app.web.blocking import AddressBlocks
from app.web.body import ClientGoneError, read_body
from app.web.call_depth import call_depth
from app.web.errors import JsonResponse, send_error
from app.web.gate import CLIENT_IP, UNAUTHORIZED, bears_key
from app.web.mcp_oauth import WELL_KNOWN, Resource, TokenCheck, resource_of
from app.web.mcp_token_errors import ExpiredTokenError, ScopeError, WrongTokenError

log = logging.getLogger(__name__)

MCP_PATH = "/mcp"

_EXPOSED = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"


class McpRoutes:
    """The ``RouteSource`` of ``/mcp`` and of its metadata for OAuth.

    While ``MCPServer`` is off nothing of it is there. Whoever comes in has shown the key, or a token of the issuer.
    """

    def __init__(self, services: Services, blocks: AddressBlocks, http: McpHttp) -> None:
        self._services = services
        self._blocks = blocks
        self._http = http
        self._tokens = TokenCheck(services.side_requests, time.time, time.monotonic)
        self._routes = (
            DeclaredRoute(Route(MCP_PATH, self, methods=["GET", "POST", "DELETE"]), Access.OWN),
            DeclaredRoute(Route(WELL_KNOWN, self._metadata, methods=["GET"]), Access.OPEN),
            DeclaredRoute(Route(WELL_KNOWN + MCP_PATH, self._metadata, methods=["GET"]), Access.OPEN),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All of them; a reload may switch them off and on again."""
        return self._routes

    def allowed_origin(self, headers: Headers) -> str | None:
        """Which page may read an answer of ``/mcp``: the one that asks, if it is allowed at all (MCP-45)."""
        origin = headers.get("origin")
        return origin if origin and self._origin_allowed(origin, headers.get("host", "")) else None

    async def _metadata(self, request: Request) -> Response:
        resource = self._resource()
        if resource is None or not self._services.settings.mcp_server:
            raise _no_route(request.scope)
        return JsonResponse(resource.metadata(), headers={"Cache-Control": "no-store"})

    def _resource(self) -> Resource | None:
        settings = self._services.settings
        return resource_of(settings, own_address(settings.host, self._services.port))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        settings = self._services.settings
        headers = Headers(scope=scope)
        resource = self._resource()
        send = _exposing(send)
        try:
            if not settings.mcp_server:
                raise _no_route(scope)
            self._check_sender(headers, resource)
            principal = await self._principal(headers, scope[CLIENT_IP], resource)
            caller = HttpCaller(principal, scope[CLIENT_IP], call_depth(headers, settings))
            body = await read_body(scope, receive, settings.mcp_body_limit_mb * 1024 * 1024)
            await self._http.handle(scope, receive, send, caller, body)
        except ClientGoneError:
            return
        except (UnauthorizedError, ScopeError) as error:
            await _challenged(error, resource)(scope, receive, send)
        except VcpError as error:
            await send_error(scope, receive, send, error)

    def _check_sender(self, headers: Headers, resource: Resource | None) -> None:
        """The checks against pages in browsers (MCP-45); ForbiddenError.

        On loopback ``Host`` must name this machine or what the settings name, so that no name of somebody else leads
        here. Other addresses are reached by whatever name the network has, and their key is what counts.
        """
        settings = self._services.settings
        host = headers.get("host", "")
        if is_loopback(settings.host) and not self._host_allowed(host, resource):
            raise ForbiddenError(
                both(
                    f"Host 不被接受：{host[:80]!r}，见 MCPAllowedHosts",
                    f"Host {host[:80]!r} is not allowed, see MCPAllowedHosts",
                )
            )
        origin = headers.get("origin")
        if origin is not None and not self._origin_allowed(origin, host):
            raise ForbiddenError(
                both(
                    f"Origin 不被接受：{origin[:80]!r}，见 MCPAllowedOrigins",
                    f"Origin {origin[:80]!r} is not allowed, see MCPAllowedOrigins",
                )
            )

    def _host_allowed(self, host: str, resource: Resource | None) -> bool:
        settings = self._services.settings
        name = _host_name(host)
        if name is None:
            return False
        allowed = {entry.lower() for entry in settings.mcp_allowed_hosts}
        public = urlsplit(resource.address).hostname if resource is not None else None
        return (
            is_loopback(name) or name == settings.host.lower() or name == public or bool({name, host.lower()} & allowed)
        )

    def _origin_allowed(self, origin: str, host: str) -> bool:
        allowed = self._services.settings.mcp_allowed_origins
        if "*" in allowed or origin in allowed:
            return True
        try:
            parts = urlsplit(origin)
            name = parts.hostname
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not name:
            return False
        return is_loopback(name) or (bool(host) and parts.netloc.lower() == host.lower())

    async def _principal(self, headers: Headers, address: str, resource: Resource | None) -> Principal:
        if bears_key(headers, self._services.key):
            return KEY_HOLDER
        given = headers.get("authorization", "")
        if resource is None:
            if given:
                self._blocks.wrong_key(address)
            raise UnauthorizedError(UNAUTHORIZED)
        kind, _, token = given.partition(" ")
        if kind.lower() != "bearer":
            raise UnauthorizedError(UNAUTHORIZED)
        try:
            return await self._tokens.principal(token.strip(), resource)
        except ExpiredTokenError:
            raise
        except WrongTokenError as error:
            log.warning("a token from %s is not accepted: %s", address, error.why)
            self._blocks.wrong_stored_key(address, token.encode("utf-8", "surrogateescape"))
            raise


def _host_name(host: str) -> str | None:
    """The name in a ``Host`` header, in small letters and without port and brackets; None for none."""
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname if parts.netloc == host and not parts.username and parts.port != 0 else None
    except ValueError:
        return None


def _no_route(scope: Scope) -> NotFoundError:
    return NotFoundError(f"{both('没有此接口', 'no route')}: {scope['method']} {scope['path']}")


def _challenged(error: VcpError, resource: Resource | None) -> Response:
    """401 or 403 with what a client needs in order to get a token (MCP-70)."""
    said = error.code if isinstance(error, WrongTokenError | ScopeError) else ""
    challenge = "Bearer" if resource is None else resource.challenge(said)
    return JsonResponse({"error": error.message}, error.status, {"WWW-Authenticate": challenge})


def _exposing(send: Send) -> Send:
    """Lets pages that may read the answer at all read those of its headers that the protocol needs (MCP-45)."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"access-control-expose-headers", _EXPOSED)]}
        await send(message)

    return sending
