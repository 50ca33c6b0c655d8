"""MCP servers for administrators: how they are, starting and stopping, consent, signing in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.errors import BadRequestError, both
from app.extend import DeclaredRoute, Json
from app.services import Services
from app.web.admin.bodies import admin_route, json_object, text_of
from app.web.errors import JsonResponse
from app.web.mcp_servers import BODY_LIMIT, server_facts

ACTIONS = ("start", "stop", "restart")


class McpServerRoutes:
    """The ``RouteSource`` of MCP servers."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = (
            admin_route("/mcp-servers", self._list),
            *(admin_route(f"/mcp-servers/{{name}}/{action}", self._act, "POST") for action in ACTIONS),
            admin_route("/mcp-servers/{name}/consent", self._consent, "POST"),
            admin_route("/mcp-servers/{name}/sign-in", self._sign_in, "POST"),
            admin_route("/mcp-servers/{name}/sign-in/address", self._hand_on, "POST"),
            admin_route("/mcp-servers/{name}/sign-out", self._sign_out, "POST"),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    async def _list(self, _request: Request) -> Response:
        states = self._services.mcp.upstream_servers.states()
        return JsonResponse({"servers": [await server_facts(self._services, status) for status in states]})

    async def _act(self, request: Request) -> Response:
        name, action = request.path_params["name"], request.url.path.rstrip("/").rpartition("/")[2]
        return JsonResponse({"message": await steer(self._services, name, action.lower())})

    async def _consent(self, request: Request) -> Response:
        tools = (await json_object(request, BODY_LIMIT)).get("tools")
        if not isinstance(tools, dict) or not all(isinstance(digest, str) and digest for digest in tools.values()):
            raise BadRequestError(
                both("tools 应是名称到 digest 的对象", "tools is an object: the digest of what was shown, by name")
            )
        return JsonResponse({"tools": list(await consent(self._services, request.path_params["name"], tools))})

    async def _sign_in(self, request: Request) -> Response:
        return JsonResponse({"message": begin_sign_in(self._services, request.path_params["name"])})

    async def _hand_on(self, request: Request) -> Response:
        address = text_of(await json_object(request, BODY_LIMIT), "address")
        return JsonResponse({"message": await hand_on(self._services, request.path_params["name"], address)})

    async def _sign_out(self, request: Request) -> Response:
        return JsonResponse({"message": await sign_out(self._services, request.path_params["name"])})


async def steer(services: Services, name: str, action: str) -> str:
    """Start, stop or start anew a server; raises NotFoundError, McpServerError."""
    servers = services.mcp.upstream_servers
    if action in ("stop", "restart"):
        await servers.stop_server(name)
    if action == "stop":
        return both(
            f"{name} 已停止，下次调用时会再启动。", f"{name} is stopped; the next call of one of its tools starts it."
        )
    await servers.start_server(name)
    return both(f"{name} 已启动。", f"{name} runs.")


async def consent(services: Services, name: str, tools: Mapping[str, Json]) -> tuple[str, ...]:
    """Consent to changed tools as they were shown; raises NotFoundError, ChangedAgainError, ConfigError."""
    services.mcp.upstream_servers.entry_of(name)
    return await services.mcp.trust.consents.accept(name, {tool: str(digest) for tool, digest in tools.items()})


def begin_sign_in(services: Services, name: str) -> str:
    """Begin a sign-in in the background, whose address is told by the state; raises NotFoundError, BadRequestError."""
    entry = services.mcp.upstream_servers.entry_of(name)
    if not services.mcp.trust.begin_sign_in(entry):
        raise BadRequestError(
            both(
                f"{name} 不使用 OAuth 登录，或另一个登录正在进行",
                f"{name} takes no OAuth sign-in, or another sign-in is under way",
            )
        )
    return both("登录已开始，请打开显示的地址。", "The sign-in has begun; open the address that is shown.")


async def hand_on(services: Services, name: str, address: str) -> str:
    """Complete a sign-in with the address at which a browser on another machine ended; raises BadRequestError."""
    services.mcp.upstream_servers.entry_of(name)
    if not await services.mcp.trust.sign_ins.hand_on(name, address):
        raise BadRequestError(
            both("没有等待中的登录，或地址不完整", "no sign-in waits there, or that is not the whole address")
        )
    return both("地址已收到。", "The address was taken.")


async def sign_out(services: Services, name: str) -> str:
    """Discard what is kept of a sign-in; raises NotFoundError, OSError."""
    entry = services.mcp.upstream_servers.entry_of(name)
    gone = await services.mcp.trust.sign_ins.sign_out(entry)
    return both("已退出登录。", "Signed out.") if gone else both("没有登录信息。", "Nobody was signed in.")
