"""Tools that answer at once with what a test wants, and what clients of the log are told of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from app.extend import CallContext, ErrorKind, ToolCall, ToolPush, ToolResult, ToolSpec
from tests.fixed_tools import FixedTools
from tests.hub.clients import Wire
from tests.server import Running, call_text

PLAIN = {"Content-Type": "text/plain"}


class SaidTools(FixedTools):
    """A source of tools: ``results`` by name, ``pushes`` what their manifests say of pushes."""

    def __init__(self, results: Mapping[str, ToolResult], pushes: Mapping[str, ToolPush] | None = None) -> None:
        pushes = pushes or {}
        self._results = results
        super().__init__(*(ToolSpec(name, "test", name, push=pushes.get(name)) for name in results))

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        return self._results[spec.name]


def said(value: Any) -> ToolResult:
    """A success."""
    return ToolResult(structured=value)


def failed(message: str) -> ToolResult:
    """What a tool says that could not do it."""
    return ToolResult(error_kind=ErrorKind.PLUGIN, message=message)


async def by_hand(server: Running, tool: str, /, **fields: str) -> httpx.Response:
    """A call at ``/v1/human/tool``."""
    return await server.client.post("/v1/human/tool", content=call_text(tool, **fields), headers=PLAIN)


async def logged(client: Wire) -> Any:
    """The data of the next ``vcp_log``, with its content read as JSON where it is some."""
    data = (await client.receive_type("vcp_log"))["data"]
    try:
        return {**data, "content": json.loads(data["content"])}
    except ValueError:
        return data
