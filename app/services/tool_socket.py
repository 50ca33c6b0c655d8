"""Builds what serves programs that bring tools over a WebSocket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from app.extend import CallContext, EventSink, Json, PlaceholderSource, ToolCall, ToolResult, ToolSource
from app.hub.tool_clients.calls import ToolSocketRules
from app.hub.tool_clients.tool_clients import ToolClients
from app.prompt.tools import ALL_TOOLS
from app.protocol.background_results import PLACEHOLDER as RESULT
from app.protocol.timestamps import iso_millis
from app.services.in_force import InForce
from app.tools.rendering import result_object
from app.tools.router import Router

MIB = 1024 * 1024


def tool_clients(
    in_force: InForce,
    others: Sequence[ToolSource],
    placeholders: Callable[[], Iterable[PlaceholderSource]],
    router: Callable[[], Router],
    events: EventSink,
    *,
    new_id: Callable[[str], str],
    socket_key: Callable[[], str],
) -> ToolClients:
    """All tool clients. ``others`` are all other sources of tools, which are never shadowed (D68).

    ``placeholders`` are those that prompts may hold beside the descriptions of tools.
    """
    elsewhere = Router(others, (), events)

    def rules() -> ToolSocketRules:
        settings = in_force.settings
        return ToolSocketRules(
            frame_bytes=settings.tool_socket_frame_mb * MIB,
            arguments_bytes=settings.tool_socket_arguments_mb * MIB,
            result_bytes=settings.tool_socket_result_mb * MIB,
            seconds=settings.tool_socket_seconds,
            password_wanted=settings.vcp_tool_code,
        )

    def reserved(name: str) -> bool:
        text = f"{{{{VCP{name}}}}}"
        return (
            name == ALL_TOOLS
            or RESULT.search(text) is not None
            or any(source.pattern.search(text) for source in placeholders())
        )

    def render(call: ToolCall, result: ToolResult) -> Json:
        return result_object(call, result, iso_millis(time.time(), in_force.zone()))

    async def call_tool(call: ToolCall, context: CallContext) -> ToolResult:
        return await router().call(call, context)

    clients = ToolClients(
        call_tool=call_tool,
        elsewhere=elsewhere.find_spec,
        reserved=reserved,
        render=render,
        rules=rules,
        keys=lambda: (in_force.key, socket_key()),
        new_id=new_id,
        clock=time.time,
    )
    for source in others:
        source.changed(clients.look_again)
    return clients
