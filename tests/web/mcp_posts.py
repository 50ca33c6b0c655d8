"""Raw requests to ``/mcp``, for what the SDK's client would never send."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx

from tests.server import Running

BOTH = "application/json, text/event-stream"
MODERN = "2026-07-28"
NEWEST = "2025-11-25"
NOWHERE = "http://127.0.0.1:9"


def request(method: str, params: Any = None, id: Any = 1, **more: Any) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method, **({} if id is None else {"id": id}), **more}
    return message if params is None else {**message, "params": params}


def initialize(version: str = NEWEST, id: Any = 1) -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    return request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client}, id)


def modern(method: str, params: Any = None, id: Any = 1, version: str = MODERN) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    return request(method, {**(params or {}), "_meta": meta}, id)


async def post(client: httpx.AsyncClient, message: Any, **headers: str | None) -> httpx.Response:
    """Send a message; ``_`` in the names of headers is ``-``, and None leaves one out."""
    given: dict[str, str | None] = {"accept": BOTH, "content-type": "application/json"}
    given.update({name.replace("_", "-"): value for name, value in headers.items()})
    content = message if isinstance(message, bytes) else json.dumps(message).encode()
    kept = {name: value for name, value in given.items() if value is not None}
    return await client.post("/mcp", content=content, headers=kept)


def answer(response: httpx.Response) -> Any:
    """The JSON-RPC answer in a JSON body, or the last one of an event stream."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    datas = [line[5:].strip() for line in response.text.splitlines() if line.startswith("data:")]
    return json.loads([data for data in datas if data][-1])


@dataclass(frozen=True, slots=True)
class Session:
    """A session that was opened by hand."""

    client: httpx.AsyncClient
    id: str
    version: str

    async def post(self, message: Any, **headers: str | None) -> httpx.Response:
        return await post(
            self.client, message, **{"mcp_session_id": self.id, "mcp_protocol_version": self.version, **headers}
        )

    async def call(self, method: str, params: Any = None, id: Any = 2) -> Any:
        return answer(await self.post(request(method, params, id)))


async def opened(server: Running, version: str = NEWEST, client: httpx.AsyncClient | None = None) -> Session:
    """A session that has been initialized."""
    client = client or server.client
    response = await post(client, initialize(version))
    assert response.status_code == 200, response.text
    session = Session(client, response.headers["mcp-session-id"], answer(response)["result"]["protocolVersion"])
    accepted = await session.post(request("notifications/initialized", id=None))
    assert accepted.status_code == 202
    return session
