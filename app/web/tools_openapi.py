"""``GET /tools/openapi.json`` and ``POST /tools/{name}``: every tool for programs that import OpenAPI tool servers."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.chat.payload import loads_request
from app.errors import NotFoundError, VcpError, both
from app.extend import Access, CallContext, DeclaredRoute, Door, ErrorKind, Json, ToolCall, ToolResult
from app.protocol.arguments import fold
from app.protocol.markers import KEY_MAID
from app.protocol.nulls import without_nulls
from app.services import Services
from app.services.mcp_server import OperatorValues
from app.tools.offers import DoorRules, Offered, Offers, restricted_naming
from app.tools.router import no_such_tool
from app.tools.schemas.check import SchemaError, check_of
from app.web.addresses import client_address
from app.web.body import BodyStream
from app.web.call_depth import call_depth
from app.web.errors import JsonResponse
from app.web.gate import CLIENT_IP
from app.web.tools_document import TOOLS_PATH, Expand, document
from app.web.upstream_answers import ended_by_hang_up

log = logging.getLogger(__name__)

DOCUMENT_PATH = f"{TOOLS_PATH}/openapi.json"
CALL_PATH = TOOLS_PATH + "/{name}"

INVALID = "invalid_arguments"
"""The ``error_type`` of arguments that do not fit the tool's schema."""

_PASSWORD = fold("tool_password")
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")

STATUSES: Mapping[ErrorKind, int] = {
    ErrorKind.UNKNOWN_TOOL: 404,
    ErrorKind.REFUSED: 403,
    ErrorKind.REJECTED: 403,
    ErrorKind.LIMIT: 429,
    ErrorKind.QUEUE: 503,
    ErrorKind.CANCELLED: 503,
    ErrorKind.TIMEOUT: 504,
    ErrorKind.UNANSWERED: 504,
}
"""HTTP status of a call that gave no result; 500 for what is not here."""


class InvalidArgumentsError(VcpError):
    """The arguments of a call do not fit; ``path`` says where, such as ``$.unit``."""

    status = 422
    code = INVALID

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class OpenApiTools:
    """The ``RouteSource`` of the tools as OpenAPI operations (``OpenAPITools``, ``OpenAPIAllow``, ``OpenAPIDeny``).

    Names are those of D68. While the setting is off both paths answer as if they were not there.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._offers = Offers(services.router.catalogue, self._rules, restricted_naming)
        self._values = OperatorValues(services.in_force)
        self._made: tuple[tuple[Offered, ...], Expand, dict[str, Json]] | None = None
        self._routes = (
            DeclaredRoute(Route(DOCUMENT_PATH, self._document, methods=["GET"]), Access.KEY),
            DeclaredRoute(Route(CALL_PATH, _CallRoute(services, self), methods=["POST"]), Access.KEY),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """Both routes; a reload may switch them off and on again, so they are always declared."""
        return self._routes

    def check_served(self, scope: Scope) -> None:
        """NotFoundError while the door is closed."""
        if not self._services.settings.openapi_tools:
            raise NotFoundError(f"{both('没有此接口', 'no route')}: {scope['method']} {scope['path']}")

    def find(self, name: str) -> Offered:
        """The tool of a restricted or full name; ``NotFoundError`` for what this door does not show."""
        found = self._offers.get(name) or next((one for one in self._offers.all() if one.full_name == name), None)
        if found is None:
            raise NotFoundError(no_such_tool(name))
        return found

    def _rules(self) -> DoorRules:
        settings = self._services.settings
        return DoorRules(settings.openapi_allow, settings.openapi_deny)

    async def _document(self, request: Request) -> Response:
        self.check_served(request.scope)
        offered, expand = self._offers.all(), self._values.expander()
        made = self._made
        if made is None or made[0] is not offered or made[1] is not expand:
            written = await asyncio.to_thread(document, offered, expand)  # rewriting a thousand schemas takes long
            made = self._made = offered, expand, written
        address = _own_address(request.scope, client_address(request.scope, self._services.settings.trusted_proxies))
        return JsonResponse({**made[2], "servers": [{"url": address + TOOLS_PATH}]})


def _own_address(scope: Scope, client: str) -> str:
    """The address under which a client sees this server, as its request tells it; empty when it tells none.

    Importers want a whole address. Which protocol the client speaks is for a trusted proxy to say.
    """
    headers = Headers(scope=scope)
    host = headers.get("host", "")
    if not _HOST.fullmatch(host):
        return ""
    scheme = scope["scheme"]
    peer = scope.get("client")
    if peer and client != peer[0] and headers.get("x-forwarded-proto", "").strip().lower() in ("http", "https"):
        scheme = headers["x-forwarded-proto"].strip().lower()
    return f"{scheme}://{host}"


class _CallRoute:
    """``POST /tools/{name}``: JSON in, JSON out; the call ends when the client hangs up."""

    def __init__(self, services: Services, tools: OpenApiTools) -> None:
        self._services = services
        self._tools = tools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._services.settings
        try:
            self._tools.check_served(scope)
            offered = self._tools.find(scope["path_params"]["name"])
            body = BodyStream(scope, receive, settings.tool_body_limit_mb * 1024 * 1024)
            await ended_by_hang_up(self._call(offered, body, scope, receive, send), receive, body.ended)
        except InvalidArgumentsError as error:
            await _error(error.message, error.code, error.status, {"path": error.path})(scope, receive, send)
        except VcpError as error:
            headers = {"Connection": "close"} if error.status == 408 else None  # the rest of the body may still come
            await _error(error.message, error.code, error.status, headers=headers)(scope, receive, send)

    async def _call(self, offered: Offered, body: BodyStream, scope: Scope, receive: Receive, send: Send) -> None:
        services = self._services
        depth = call_depth(Headers(scope=scope), services.settings)
        parts: list[bytes] = []
        while not body.ended.is_set():
            parts.append(await body.next())
        arguments = read_arguments(b"".join(parts))
        password = None
        if services.settings.vcp_tool_code:
            password = next((value for key, value in arguments.items() if fold(key) == _PASSWORD), None)
            arguments = {key: value for key, value in arguments.items() if fold(key) != _PASSWORD}
        arguments = without_nulls(arguments, offered.input_schema)
        check_arguments(offered, arguments)
        call = ToolCall(
            id=services.new_id("call"),
            tool=offered.full_name,
            arguments=arguments,
            password=password if isinstance(password, str) else None,
            maid=maid if isinstance(maid := arguments.get(KEY_MAID), str) else None,
        )
        context = CallContext(turn_id=call.id, door=Door.OPENAPI, client_ip=scope[CLIENT_IP], depth=depth)
        result = await services.router.call(call, context)
        if result.error_kind is None:
            answer: Response = JsonResponse(plain_value(result))
        else:
            answer = _error(result.message, result.error_kind, STATUSES.get(result.error_kind, 500))
        await answer(scope, receive, send)


def read_arguments(data: bytes) -> dict[str, Json]:
    """The arguments in a request body, none in an empty one. Raises InvalidArgumentsError for what is no object."""
    if not data.strip():
        return {}
    try:
        value = loads_request(data)
    except (ValueError, RecursionError):
        raise InvalidArgumentsError(both("请求体不是 JSON", "the request body is not JSON"), "$") from None
    if not isinstance(value, dict):
        raise InvalidArgumentsError(both("请求体必须是 JSON 对象", "the request body must be a JSON object"), "$")
    return value


def check_arguments(offered: Offered, arguments: Mapping[str, Json]) -> None:
    """Raises InvalidArgumentsError when the arguments do not fit the tool's schema; a broken one checks nothing."""
    try:
        check = check_of(offered.input_schema)
    except SchemaError as error:
        log.warning("the arguments of %s are not checked: %s", offered.full_name, error.message)
        return
    fault = check.fault(arguments)
    if fault is not None:
        raise InvalidArgumentsError(fault.reason, fault.path)


def plain_value(result: ToolResult) -> Json:
    """The result as plain JSON: what an MCP server gave as data, pictures as content parts, else ``structured``."""
    if result.mcp is not None and "structuredContent" in result.mcp:
        return result.mcp["structuredContent"]
    if result.parts is not None and (
        result.structured is None
        or (result.mcp is not None and any(part.get("type") != "text" for part in result.parts))
    ):
        return list(result.parts)
    return result.structured


def _error(
    message: str,
    kind: str,
    status: int,
    more: Mapping[str, Json] | None = None,
    headers: dict[str, str] | None = None,
) -> JsonResponse:
    return JsonResponse({"error": message, "error_type": str(kind), **(more or {})}, status, headers)
