"""Parameters that do not fit their method: the client is told which, and what they should be (mcp.md MCP-5)."""

from __future__ import annotations

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.methods import validate_client_request
from pydantic import ValidationError

from app.errors import both

FAULTS = 3
"""Most faults of one request that are told."""

REASON_CHARS = 300
"""Most characters of what is told of one."""

_SDK_TEXT = "Invalid request parameters"


async def explained(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware of the SDK's server, which itself says no more than that parameters are invalid.

    The error names the places and never repeats the values.
    """
    try:
        return await call_next(ctx)
    except ValidationError as error:
        reason = _reason(ctx)
        if ctx.request_id is None or not reason:
            raise  # no fault of the client's
        raise MCPError(INVALID_PARAMS, reason) from error
    except MCPError as error:
        if error.error.code == INVALID_PARAMS and error.error.message == _SDK_TEXT:  # that is how it refuses these
            text = both(f"{ctx.method} 之前须先 initialize", f"{ctx.method} comes after initialize")
            raise MCPError(INVALID_PARAMS, text) from error
        raise


def _reason(ctx: ServerRequestContext[Any, Any]) -> str:
    """What is wrong with a request; nothing where it is sound."""
    try:
        validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}"[:REASON_CHARS] for one in found[:FAULTS])
        return f"{both(f'{ctx.method} 的参数有误', f'parameters of {ctx.method} are wrong')}: {told}"
    except KeyError:
        return ""
    return ""
