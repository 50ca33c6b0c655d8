"""Builds what serves WebSockets: the hub, and what is fed by the events of the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from app.extend import CallContext, EventSink, Json, ToolCall, ToolResult, ToolSource
from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.hub.tool_calls import ToolSocketRules
from app.hub.tool_clients import ToolClients
from app.protocol.timestamps import iso_millis
from app.services.in_force import InForce
from app.tools.rendering import result_object
from app.tools.router import Router

MIB = 1024 * 1024


def hub(in_force: InForce, new_id: Callable[[str], str], socket_key: Callable[[], str]) -> Hub:
    """Who is connected. ``socket_key`` is the key of now that WebSocket clients show."""

    def max_message_bytes(kind: ClientType) -> int:
        settings = in_force.settings
        return (settings.node_max_frame_mb if kind is ClientType.NODE else settings.socket_max_frame_mb) * MIB

    def keys(kind: ClientType) -> Sequence[str]:
        return () if kind is ClientType.NODE and in_force.settings.node_keys_only else (socket_key(),)

    return Hub(new_id=new_id, clock=time.time, max_message_bytes=max_message_bytes, keys=keys)


def tool_clients(
    in_force: InForce,
    others: Sequence[ToolSource],
    router: Callable[[], Router],
    events: EventSink,
    *,
    new_id: Callable[[str], str],
    socket_key: Callable[[], str],
) -> ToolClients:
    """Programs that bring tools over a WebSocket. ``others`` are all other sources; their tools are never shadowed."""
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

    def render(call: ToolCall, result: ToolResult) -> Json:
        return result_object(call, result, iso_millis(time.time(), in_force.zone()))

    async def call_tool(call: ToolCall, context: CallContext) -> ToolResult:
        return await router().call(call, context)

    clients = ToolClients(
        call_tool=call_tool,
        elsewhere=elsewhere.find_spec,
        render=render,
        rules=rules,
        keys=lambda: (in_force.key, socket_key()),
        new_id=new_id,
        clock=time.time,
    )
    for source in others:
        source.changed(clients.look_again)
    return clients
