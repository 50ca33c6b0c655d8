"""Resources, prompts and completion as handlers of the SDK's server, over given shelves (MCP-17, MCP-28, MCP-29)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptRequestParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from app.errors import BadRequestError, NotFoundError, VcpError, both
from app.extend import Json
from app.mcp.server.connections import connection_of
from app.mcp.server.listeners import MAX_URIS, Listeners
from app.mcp.server.listing import MODERN_SINCE
from app.mcp.server.progress import Context
from app.mcp.server.prompts import PromptShelf
from app.mcp.server.resources import ResourceShelf

RESOURCE_NOT_FOUND = -32002
"""An unknown resource, for clients with a session (MCP-5); the newest revision says invalid parameters."""

T = TypeVar("T")


async def told(found: Awaitable[T], missing: int = INVALID_PARAMS, uri: str | None = None) -> T:
    """What a shelf gives, or its error as the protocol's: ``missing``, with the ``uri``, of what is not there."""
    try:
        return await found
    except NotFoundError as error:
        raise MCPError(missing, error.message, None if uri is None else {"uri": uri}) from None
    except BadRequestError as error:
        raise MCPError(INVALID_PARAMS, error.message) from None
    except VcpError as error:
        raise MCPError(INTERNAL_ERROR, error.message) from None


def add_resources(server: Server[Any], shelf: ResourceShelf, listeners: Listeners) -> None:
    """Serve what the shelf has; sessions may watch single resources."""

    async def listed(_context: Context, params: PaginatedRequestParams) -> ListResourcesResult:
        return await told(shelf.list(params.cursor))

    async def templates(_context: Context, params: PaginatedRequestParams) -> ListResourceTemplatesResult:
        return await told(shelf.templates(params.cursor))

    async def read(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        missing = INVALID_PARAMS if context.protocol_version >= MODERN_SINCE else RESOURCE_NOT_FOUND
        return await told(shelf.read(params.uri), missing, params.uri)

    async def subscribe(context: Context, params: SubscribeRequestParams) -> EmptyResult:
        if not listeners.watch(connection_of(context), params.uri):
            raise MCPError(
                INVALID_PARAMS, both(f"最多订阅 {MAX_URIS} 个资源", f"{MAX_URIS} resources at most can be watched")
            )
        return EmptyResult()

    async def unsubscribe(context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        listeners.unwatch(connection_of(context), params.uri)
        return EmptyResult()

    server.add_request_handler("resources/list", PaginatedRequestParams, listed)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read)
    server.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)


def add_prompts(
    server: Server[Any],
    shelf: PromptShelf,
    make: Callable[[Context, GetPromptRequestParams], Awaitable[dict[str, Json]]],
) -> None:
    """Serve the prompts of the shelf; ``make`` makes one, and may ask the client first."""

    async def listed(_context: Context, params: PaginatedRequestParams) -> ListPromptsResult:
        return await told(shelf.list(params.cursor))

    server.add_request_handler("prompts/list", PaginatedRequestParams, listed)
    server.add_request_handler("prompts/get", GetPromptRequestParams, make)


def add_completion(server: Server[Any], resources: ResourceShelf | None, prompts: PromptShelf | None) -> None:
    """Complete arguments of prompts and variables of templates."""

    async def complete(_context: Context, params: CompleteRequestParams) -> CompleteResult:
        given = (params.context.arguments if params.context is not None else None) or {}
        argument, value = params.argument.name, params.argument.value
        found: Completion | None = None
        if isinstance(params.ref, PromptReference):
            if prompts is not None:
                found = await told(prompts.complete(params.ref.name, argument, value, given))
        elif resources is not None:
            found = await told(resources.complete(params.ref.uri, argument, value, given))
        if found is None:
            raise MCPError(INVALID_PARAMS, both("没有可补全的对象", "there is nothing of this to complete"))
        return CompleteResult(completion=found)

    server.add_request_handler("completion/complete", CompleteRequestParams, complete)
