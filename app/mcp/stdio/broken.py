"""What a client meets whose server could not load its plugins and was told to start all the same (STD-44)."""

from __future__ import annotations

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, ListToolsResult, PaginatedRequestParams

from app import __version__
from app.errors import both

_SERVED = frozenset({"initialize", "ping", "tools/list", "server/discover"})


def broken_server() -> Server[Any]:
    """A server with an empty list of tools; whatever else is asked of it is an internal error that says why."""

    async def no_tools(_context: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[], ttl_ms=0, cache_scope="private")

    server: Server[Any] = Server("vcp-server", version=__version__, title="VCP", on_list_tools=no_tools)
    server.middleware[:] = [_refuse]
    return server


async def _refuse(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    if ctx.request_id is None or ctx.method in _SERVED:
        return await call_next(ctx)
    text = both("插件未能加载，详见标准错误输出", "the plugins could not be loaded; stderr says why")
    raise MCPError(INTERNAL_ERROR, text)
