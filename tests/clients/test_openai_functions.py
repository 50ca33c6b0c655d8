"""Function calls of ours and of the client's own, as the official Python client sees them, against a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from app.demo.script import Scripted, say
from app.demo.scripted import ScriptedUpstream
from app.demo.upstream import create_demo
from app.web.server import serve
from tests.chat.native_calls import WEATHER, Shelf, add, asks, weather
from tests.server import HEADERS, call_text, run, running


async def with_key(request: httpx.Request) -> None:
    """The client writes its key as ASCII; that of the tests is not."""
    others = [pair for pair in request.headers.raw if pair[0].lower() != b"authorization"]
    request.headers = httpx.Headers([*others, *HEADERS.items()])


async def streamed(client: AsyncOpenAI, text: str = "go", **more: Any) -> Any:
    """The completion that the client's own assembler makes of a stream."""
    async with client.chat.completions.stream(
        model="m", messages=[{"role": "user", "content": text}], **more
    ) as stream:
        async for _ in stream:
            continue
        return await stream.get_final_completion()


async def plain(client: AsyncOpenAI, text: str = "go", **more: Any) -> Any:
    return await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **more)


MODES = pytest.mark.parametrize("ask", [streamed, plain])


@MODES
@pytest.mark.parametrize(
    ("script", "content", "names", "finish"),
    [
        ([asks(add(), add("call_2")), say("It is 3.")], "It is 3.", [], "stop"),
        ([asks(add(), text="See." + call_text("Note")), say("ok")], "See." + call_text("Note") + "\nok", [], "stop"),
        ([asks(add(), weather())], "", ["weather"], "tool_calls"),
        ([asks(weather(), add(), text="Both.")], "Both.", ["weather"], "tool_calls"),
        ([asks(weather(), weather("call_v"))], "", ["weather", "weather"], "tool_calls"),
    ],
    ids=["ours", "ours and text", "ours, theirs", "theirs, ours", "theirs"],
)
def test_the_client_gets_one_answer_and_only_its_own_calls(
    tmp_path: Path, ask: Any, script: list[Scripted], content: str, names: list[str], finish: str
) -> None:  # D1, D3, D33
    async def main() -> None:
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=["NativeTools=on"], sources=[Shelf()]) as server,
            httpx.AsyncClient(trust_env=False, event_hooks={"request": [with_key]}) as http,
        ):
            client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="ascii", max_retries=0, http_client=http)
            (choice,) = (await ask(client, tools=[WEATHER])).choices
            assert (choice.message.content or "") == content
            calls = choice.message.tool_calls or []
            assert [call.function.name for call in calls] == names
            assert [json.loads(call.function.arguments) for call in calls] == [{"city": "北京"}] * len(names)
            assert choice.finish_reason == finish
            assert len(up.requests) == len(script)

    run(main())


@MODES
def test_the_demo_model_calls_a_real_plugin_as_a_function_and_tells_its_answer(tmp_path: Path, ask: Any) -> None:
    async def main() -> None:
        async with (
            serve(create_demo(delay=0)) as demo,
            running(tmp_path, demo, config=["NativeTools=auto"]) as server,
            httpx.AsyncClient(trust_env=False, event_hooks={"request": [with_key]}) as http,
        ):
            client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="ascii", max_retries=0, http_client=http)
            (choice,) = (await ask(client, "what is 12*7 and 3+4")).choices
            said = choice.message.content or ""
            assert "TOOL_REQUEST" not in said
            assert "84" in said
            assert "7" in said.rpartition("84")[2]
            assert choice.finish_reason == "stop"
            assert not choice.message.tool_calls

    run(main())
