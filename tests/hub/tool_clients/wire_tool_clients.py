"""Tool clients of tests: owners and callers over real WebSockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.hub.clients import SOCKET_KEY, Wire, address, connected
from tests.server import Running

UPSTREAM = "http://127.0.0.1:9"
CONFIG = (f"VCP_Key={SOCKET_KEY}",)

ROLL = {"type": "object", "properties": {"sides": {"type": "integer", "minimum": 2}}, "required": ["sides"]}


@asynccontextmanager
async def tool_client(server: Running, query: str = "") -> AsyncIterator[Wire]:
    """A tool client that the server knows."""
    async with connected(address(server.url, "/ws/tools", query=query)) as client:
        await (await client.connection.ping())
        yield client


def frame(kind: str, /, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def register(name: str = "roll", schema: Any = None, **data: Any) -> dict[str, Any]:
    return frame("register_tool", name=name, schema=ROLL if schema is None else schema, **data)


def execute(execution_id: str = "e1", name: str = "roll", **data: Any) -> dict[str, Any]:
    return frame("execute_tool", executionId=execution_id, name=name, **data)


def completed(execution_id: str = "e1", result: Any = 4) -> dict[str, Any]:
    return frame("tool_execution_completed", executionId=execution_id, result=result)


async def told(client: Wire, count: int) -> list[Any]:
    """The next frames, and then there are no others."""
    frames = [await client.receive() for _ in range(count)]
    await client.nothing_waits()
    return frames


def refusal(answer: Any) -> str:
    """The code of a private error, whose shape is that of WS-2."""
    assert answer["type"] == "error", answer
    assert set(answer) <= {"type", "error", "data", "requestId"}
    assert set(answer["error"]) == {"code", "message"}
    assert answer["data"]["code"] == answer["error"]["code"]
    assert answer["data"]["message"] == answer["error"]["message"]
    assert answer["error"]["message"]
    return str(answer["error"]["code"])


async def refused(client: Wire, sent: Any) -> str:
    """The code with which a frame is refused, privately."""
    await client.send(sent)
    return refusal(await client.receive())


async def registered(owner: Wire, *others: Wire, name: str = "roll", **data: Any) -> None:
    """The owner registers a tool, and all are told."""
    await owner.send(register(name, **data))
    for client in (owner, *others):
        assert (await client.receive())["data"]["name"] == name


def failure(answer: Any, execution_id: str = "e1") -> tuple[str, str]:
    """Code and message of a failed run."""
    assert answer["type"] == "tool_execution_failed", answer
    assert set(answer["data"]) == {"executionId", "error"}
    assert answer["data"]["executionId"] == execution_id
    assert set(answer["data"]["error"]) == {"code", "message"}
    return answer["data"]["error"]["code"], answer["data"]["error"]["message"]
