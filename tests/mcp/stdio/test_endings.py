"""Ends that come from behind the front: an answer that nobody wants any more, a server that breaks."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from app.services.mcp_stdio import _serve
from tests.mcp.stdio.wires import linked, notification, request


def test_an_answer_that_was_on_its_way_when_its_request_was_cancelled_is_not_told() -> None:
    """MCP-8, STD-38: whatever stands behind the front says; the id is free afterwards."""

    async def late(incoming: Any, outgoing: Any) -> None:
        waiting: list[Any] = []
        async for item in incoming:
            message = item.message
            if isinstance(message, JSONRPCNotification):
                for id in waiting:
                    await outgoing.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=id, result={"late": True})))
            elif isinstance(message, JSONRPCRequest) and message.method == "wait":
                waiting.append(message.id)
            else:
                await outgoing.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=message.id, result={})))

    async def main() -> None:
        async with linked(late) as (client, _):
            await client.send(request(7, "wait"), notification("notifications/cancelled", {"requestId": 7}))
            assert await client.ask(request(8, "quick")) == {"jsonrpc": "2.0", "id": 8, "result": {}}
            assert (await client.ask(request(7, "quick")))["result"] == {}

    asyncio.run(main())


def test_a_fault_that_nobody_can_go_on_after_ends_with_1_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """STD-42."""

    async def breaks(incoming: Any, outgoing: Any) -> None:
        raise RuntimeError("broken")

    reading, writing = os.pipe(), os.pipe()
    os.close(reading[1])
    try:
        assert asyncio.run(_serve(breaks, (reading[0], writing[1]))) == 1
    finally:
        for descriptor in (reading[0], *writing):
            os.close(descriptor)
    assert "the connection has failed" in caplog.text
