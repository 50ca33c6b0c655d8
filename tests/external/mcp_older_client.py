"""The older official SDK (1.30) as a client: uses all that a server has, and prints what it met as JSON.

mcp_older_client.py http URL KEY
mcp_older_client.py stdio COMMAND [WORD ...]
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

SECONDS = timedelta(seconds=60)


async def sampled(_context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    words = params.messages[0].content
    assert isinstance(words, types.TextContent)
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text=words.text.upper()), model="m"
    )


async def elicited(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"username": "nova", "email": params.message, "name": "Nova"})


async def roots(_context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///work")])  # type: ignore[arg-type]


async def met(read: Any, write: Any) -> dict[str, Any]:
    logged: list[str] = []
    told: list[float] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(str(params.data))

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(done)

    async with ClientSession(
        read,
        write,
        read_timeout_seconds=SECONDS,
        sampling_callback=sampled,
        elicitation_callback=elicited,
        list_roots_callback=roots,
        logging_callback=log,
    ) as session:
        handshake = await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]

        async def call(name: str, /, **arguments: Any) -> Any:
            result = await session.call_tool(name, arguments, progress_callback=progress)
            return {
                "error": result.isError,
                "content": [block.model_dump(mode="json", exclude_none=True) for block in result.content],
                "structured": result.structuredContent,
            }

        calls = {
            "echo": await call("Echo", text="你好"),
            "wrong": await call("Echo", txt="x"),
            "kinds": await call("test_multiple_content_types"),
            "sound": await call("test_audio_content"),
            "failing": await call("test_error_handling"),
            "sampling": await call("test_sampling", prompt="hello"),
            "elicitation": await call("test_elicitation", message="a@b.example"),
            "roots": await call("test_input_required_result_list_roots"),
            "three": await call("test_input_required_result_multiple_inputs"),
            "progress": await call("test_tool_with_progress"),
            "logging": await call("test_tool_with_logging"),
        }
        try:
            await session.call_tool("Nobody", {})
            unknown = 0
        except McpError as error:
            unknown = error.error.code
        resources = [str(resource.uri) for resource in (await session.list_resources()).resources]
        templates = [template.uriTemplate for template in (await session.list_resource_templates()).resourceTemplates]
        text = await session.read_resource("test://template/7/data")  # type: ignore[arg-type]
        prompts = [prompt.name for prompt in (await session.list_prompts()).prompts]
        prompt = await session.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        completed = await session.complete(reference, {"name": "arg1", "value": "te"})
        return {
            "version": handshake.protocolVersion,
            "tools": tools,
            "calls": calls,
            "unknown": unknown,
            "progress": told,
            "logged": logged,
            "resources": resources,
            "templates": templates,
            "text": text.contents[0].model_dump(mode="json")["text"],
            "prompts": prompts,
            "prompt": prompt.messages[0].content.model_dump(mode="json")["text"],
            "completed": completed.completion.values,
        }


async def main(way: str, *words: str) -> None:
    if way == "http":
        url, key = words
        async with streamablehttp_client(url, headers={"Authorization": f"Bearer {key}"}) as (read, write, _):
            seen = await met(read, write)
    else:
        command, *arguments = words
        async with stdio_client(StdioServerParameters(command=command, args=arguments)) as (read, write):
            seen = await met(read, write)
    print(json.dumps(seen))


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 100))
