"""``GET /v1/mcp/servers`` and ``POST /v1/mcp/servers/{name}/consent``: MCP servers, and consent to changed tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.chat.payload import loads_request
from app.errors import BadRequestError, NotFoundError, both
from app.extend import Json
from app.mcp.client.changed_tool import ChangedTool
from app.mcp.client.status import ServerState, ServerStatus
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.errors import JsonResponse
from app.web.openapi import described as documented

BODY_LIMIT = 2 * 1024 * 1024
"""Bytes of a request body."""

MAX_CHANGED = 50
"""Most changed tools of one server whose texts are shown; of all others the names."""

MAX_TEXT_CHARS = 10_000
MAX_DIFF_CHARS = 20_000

_CONSENT = documented(
    "application/json",
    {
        "type": "object",
        "properties": {
            "tools": {
                "oneOf": [
                    {"type": "array", "items": {"type": "string"}},
                    {"type": "object", "additionalProperties": {"type": "string"}},
                ]
            }
        },
    },
    "Names of the tools that may be used again",
    (400, 404, 408, 409, 413, 415),
)


def mcp_servers_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.get("/v1/mcp/servers", summary="MCP servers, how they are, and tools that wait for consent")
    async def servers() -> Response:
        listed = [await server_facts(services, status) for status in services.mcp.upstream_servers.states()]
        return JsonResponse({"servers": listed})

    @router.post(
        "/v1/mcp/servers/{name}/consent", summary="Consent to changed tools of an MCP server", openapi_extra=_CONSENT
    )
    async def consent(request: Request, name: str) -> Response:
        try:
            data = await read_body(request.scope, request.receive, BODY_LIMIT)
        except ClientGoneError:
            return Response(status_code=400)
        tools = _tools(data)
        if name not in {status.name for status in services.mcp.upstream_servers.states()}:
            raise NotFoundError(both(f"没有 MCP 服务器 {name[:64]!r}", f"no MCP server is called {name[:64]!r}"))
        accepted = await services.mcp.trust.consents.accept(name, tools)
        return JsonResponse({"server": name, "tools": list(accepted)})

    return router


async def server_facts(services: Services, status: ServerStatus) -> dict[str, Json]:
    """A server as it is told: its state, tools that wait for consent with their texts, the sign-in that it wants."""
    trust = services.mcp.trust
    facts: dict[str, Json] = {
        "name": status.name,
        "kind": status.kind.value,
        "state": status.state.value,
        "since": status.since,
        "description": status.description,
        "where": status.shown,
        "error": status.error,
        "tools": status.tools,
        "running": status.running,
        "pid": status.pid,
        "protocol": status.protocol,
    }
    if status.changed:
        changed = await trust.consents.changes(status.name)
        facts["changed"] = await asyncio.to_thread(lambda: [_change(tool) for tool in changed[:MAX_CHANGED]])
        facts["alsoChanged"] = [tool.name for tool in changed[MAX_CHANGED:]]
    needed = trust.needed(status.name)
    if needed is not None:
        facts["state"] = ServerState.SIGN_IN.value
        facts["signIn"] = {"url": needed.url, "since": needed.since, "error": needed.error}
    return facts


def _change(tool: ChangedTool) -> Json:
    return {
        "name": tool.name,
        "old": str(tool.old.get("description") or "")[:MAX_TEXT_CHARS],
        "new": str(tool.new.get("description") or "")[:MAX_TEXT_CHARS],
        "diff": tool.diff()[:MAX_DIFF_CHARS],
        "digest": tool.digest,
    }


def _tools(data: bytes) -> dict[str, str] | None:
    """The names in a body, each with the digest of what was shown or nothing; None for all.

    Raises BadRequestError for a body that says neither.
    """
    if not data.strip():
        return None
    try:
        body: Json = loads_request(data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{both('请求体不是 JSON', 'the request body is not JSON')}: {error}") from None
    tools = body.get("tools") if isinstance(body, dict) else 0
    if tools is None:
        return None
    named = dict.fromkeys(tools, "") if isinstance(tools, list) and _are_texts(tools) else tools
    if not isinstance(named, dict) or not _are_texts(named.values()):
        raise BadRequestError(
            both(
                "tools 应是工具名称的列表，或名称到 digest 的对象，可省略",
                "tools should be a list of names of tools, or an object of digests by name, and may be missing",
            )
        )
    return named


def _are_texts(values: Iterable[Json]) -> bool:
    return all(isinstance(value, str) for value in values)
