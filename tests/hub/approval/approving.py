"""A server whose tools need approval, and people who decide."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.config.approval_rules import FILE_NAME
from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallContext, ToolCall, ToolCommand, ToolResult, ToolSpec
from tests.fixed_tools import FixedTools
from tests.hub.clients import SOCKET_KEY, Wire, address, connected
from tests.server import Running, running
from tests.waiting import until as until

CONFIG = (f"VCP_Key={SOCKET_KEY}",)
NOWHERE = "http://127.0.0.1:9"


class Tools(FixedTools):
    """Tools that only remember with what they were called."""

    def __init__(self, *names: str) -> None:
        commands = (ToolCommand("Read", "Read", ""), ToolCommand("Delete", "Delete", ""))
        super().__init__(*(ToolSpec(name, "test", name, commands) for name in names))
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        self.calls.append((spec.name, call.arguments))
        return ToolResult(structured=f"{spec.name} said")

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


def wants(home: Path, *rules: str, **more: Any) -> None:
    """Write the rules of a home."""
    value = {"enabled": True, "approvalList": list(rules), **more}
    temporary = home / "new-rules"
    temporary.write_text(json.dumps(value))
    temporary.rename(home / FILE_NAME)


@asynccontextmanager
async def approving(
    home: Path, tools: Tools, *replies: str, rules: tuple[str, ...] = ("Danger",), **more: Any
) -> AsyncIterator[tuple[Running, ScriptedUpstream]]:
    """A server before an upstream that says ``replies``; ``Danger`` needs approval."""
    wants(home, *rules, **more)
    async with (
        ScriptedUpstream([say(reply) for reply in replies]) as up,
        running(home, up.base_url, config=CONFIG, sources=[tools]) as server,
    ):
        yield server, up


@asynccontextmanager
async def person(server: Running) -> AsyncIterator[Wire]:
    """Somebody with a VCPLog client."""
    async with connected(address(server.url)) as wire:
        assert (await wire.receive())["type"] == "connection_ack"
        yield wire


async def asked(wire: Wire) -> Any:
    """The next request for approval."""
    return (await wire.receive_type("tool_approval_request"))["data"]


async def settled(wire: Wire) -> Any:
    """What came of the next request."""
    return (await wire.receive_type("tool_approval_settled"))["data"]


async def answers(wire: Wire, approved: Any, reason: str | None = None) -> Any:
    """Wait for the next request and answer it; gives the request."""
    request = await asked(wire)
    await says(wire, request["requestId"], approved, reason)
    return request


async def says(wire: Wire, request_id: Any, approved: Any, reason: str | None = None) -> None:
    """Answer a request."""
    data = {"requestId": request_id, "approved": approved, **({} if reason is None else {"reason": reason})}
    await wire.send({"type": "tool_approval_response", "data": data})


async def nothing_of(wire: Wire, kind: str) -> None:
    """No message of this type was sent up to now: a ping comes back behind all that was."""
    await (await wire.connection.ping())
    frames = wire.connection.recv_messages.frames
    assert not [True for frame in frames.queue if kind.encode() in frame.data]
