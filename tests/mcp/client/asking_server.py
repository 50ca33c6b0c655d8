"""An MCP server over HTTP, out of the SDK's parts, whose tools ask: for a form, a page, a word of a model, folders."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.mcp.client.oauth.realm import serving
from tests.server import Running
from tests.waiting import until

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer", "minimum": 0},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "green"},
    },
    "required": ["name"],
}


@dataclass
class Asking:
    """Tools by name with their descriptions, and the form that ``ask`` wants."""

    tools: dict[str, str] = field(default_factory=lambda: {"ask": "Asks", "visit": "Asks for a visit", "say": "Says"})
    form: dict[str, Any] = field(default_factory=lambda: FORM)
    url: str = ""

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        listed = [types.Tool(name=n, description=d, input_schema={"type": "object"}) for n, d in self.tools.items()]
        return types.ListToolsResult(tools=listed)

    async def call(self, context: Any, params: types.CallToolRequestParams) -> Any:
        request: Any
        if params.name == "ask":
            request = types.ElicitRequest(
                params=types.ElicitRequestFormParams(message="Who are you?", requested_schema=self.form)
            )
        elif params.name == "visit":
            request = types.ElicitRequest(
                params=types.ElicitRequestURLParams(message="Pay", url="https://pay.example:8443/x", elicitation_id="e")
            )
        else:
            words = {"messages": [{"role": "user", "content": {"type": "text", "text": "{{Date}}?"}}], "maxTokens": 9}
            request = types.CreateMessageRequest(params=types.CreateMessageRequestParams.model_validate(words))
        kind = types.CreateMessageResult if params.name == "say" else types.ElicitResult
        modern = context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS
        if modern and not params.input_responses:
            return types.InputRequiredResult(input_requests={"q": request}, request_state="state")
        try:
            answer = (
                params.input_responses["q"]
                if params.input_responses
                else await context.session.send_request(request, kind)
            )
            text = answer.model_dump_json(by_alias=True, exclude_none=True, exclude={"result_type"})
        except MCPError as error:
            text = f"error {error.error.code}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


@asynccontextmanager
async def asking() -> AsyncIterator[Asking]:
    """The server, served."""
    made = Asking()
    manager = StreamableHTTPSessionManager(Server("asking", on_call_tool=made.call, on_list_tools=made.list_tools))
    async with manager.run(), serving(manager.handle_request) as url:
        made.url = f"{url}/mcp"
        yield made


def used_by(home: Path, made: Asking, **more: Any) -> None:
    """Write the file of servers of a home, with this one as ``forms``."""
    home.mkdir(exist_ok=True)
    entry = {"type": "http", "url": made.url, **more}
    (home / "mcp_servers.json").write_text(json.dumps({"mcpServers": {"forms": entry}}), encoding="utf-8")


async def listed(server: Running, *names: str) -> None:
    """Wait until the router has exactly these tools of the server."""
    wanted = {f"forms.{name}" for name in names}

    def reached() -> bool:
        return {name for name in server.services.router.specs() if name.startswith("forms.")} == wanted

    await until(reached, 10.0)
