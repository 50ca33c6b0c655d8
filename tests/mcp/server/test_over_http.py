"""The door behind ``/mcp`` of a real server: cancelling, hanging up, questions, progress, changed lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult, ServerNotification, ToolListChangedNotification

from app.extend import CallFinished, Outcome
from tests.hub.nodes.wire_nodes import CONFIG, UPSTREAM
from tests.hub.tool_clients.wire_tool_clients import registered, tool_client
from tests.mcp.server.bench import ERAS, MODERN
from tests.mcp.server.test_cancelling import SLEEPER, alive, both_pids
from tests.plugins.modules import write_module
from tests.server import HEADERS, Running, run, running, write_plugin
from tests.waiting import until
from tests.web.mcp_posts import answer, modern, opened, post, request

WAITS = """
import asyncio, pathlib

def create(context):
    class P:
        async def call(self, call, within):
            pathlib.Path(call.arguments["mark"]).write_text("begun")
            while not pathlib.Path(call.arguments["mark"] + ".go").exists():
                await asyncio.sleep(0.005)
            return {"done": True}
    return P()
"""

ASKS = """
from app.extend import Question

def create(context):
    class P:
        async def call(self, call, within):
            context.progress(call, 1, 2, "half")
            within.caller.log("warning", {"told": "before"})
            form = {"mode": "form", "message": "Who?", "requestedSchema": {
                "type": "object", "properties": {"name": {"type": "string"}}}}
            first = await within.caller.ask(Question.ELICIT, form)
            second = await within.caller.ask(Question.ELICIT, form)
            return {"names": [first["content"]["name"], second["content"]["name"]]}
    return P()
"""


@asynccontextmanager
async def client_at(server: Running, era: str, **options: Any) -> AsyncIterator[Client]:
    """The SDK's client at ``/mcp``."""
    async with (
        httpx.AsyncClient(headers=HEADERS, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=era, **options) as client,
    ):
        yield client


def finished(server: Running) -> list[Outcome]:
    return [event.outcome for event in server.events if isinstance(event, CallFinished)]


def test_mcp_13_std_38_a_cancelled_call_of_a_session_kills_its_process_tree(tmp_path: Path) -> None:
    """MCP-8, as the SDK has it over HTTP: a stream ends with a response, so there it is "cancelled" (-32800)."""

    async def main() -> None:
        folder = write_plugin(tmp_path, "Sleeper", SLEEPER)
        async with running(tmp_path, UPSTREAM) as server:
            session = await opened(server)
            call = asyncio.create_task(session.post(request("tools/call", {"name": "Sleeper"}, id=7)))
            pids = await both_pids(folder / "pids")
            assert all(alive(pid) for pid in pids)
            await session.post(request("notifications/cancelled", {"requestId": 7}, id=None))
            assert answer(await call)["error"]["code"] == -32800
            await until(lambda: not any(alive(pid) for pid in pids))
            await until(lambda: finished(server) == [Outcome.CANCELLED])

    run(main())


def test_mcp_13_mcp_47_hanging_up_a_call_without_a_session_kills_its_process_tree(tmp_path: Path) -> None:
    async def main() -> None:
        folder = write_plugin(tmp_path, "Sleeper", SLEEPER)
        async with running(tmp_path, UPSTREAM) as server:
            headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "Sleeper"}
            call = asyncio.create_task(
                post(server.client, modern("tools/call", {"name": "Sleeper", "arguments": {}}), **headers)
            )
            pids = await both_pids(folder / "pids")
            call.cancel()
            await asyncio.wait({call})
            await until(lambda: not any(alive(pid) for pid in pids))
            await until(lambda: finished(server) == [Outcome.CANCELLED])

    run(main())


def test_mcp_44_hanging_up_is_not_cancelling_in_a_session(tmp_path: Path) -> None:
    async def main() -> None:
        write_module(tmp_path, "Waits", WAITS)
        mark = tmp_path / "mark"
        async with running(tmp_path, UPSTREAM) as server:
            session = await opened(server)
            params = {"name": "Waits", "arguments": {"mark": str(mark)}}
            call = asyncio.create_task(session.post(request("tools/call", params, id=7)))
            await until(mark.exists)
            call.cancel()
            await asyncio.wait({call})
            assert (await session.call("ping")) is not None
            assert finished(server) == []
            await asyncio.to_thread(mark.with_name("mark.go").touch)
            await until(lambda: finished(server) == [Outcome.SUCCESS])

    run(main())


def test_mcp_4_an_id_that_is_in_use_is_refused_and_leaves_nobody_without_an_answer(tmp_path: Path) -> None:
    """The SDK gives both requests one stream, on which one of them would wait for ever."""

    async def main() -> None:
        write_module(tmp_path, "Waits", WAITS)
        async with running(tmp_path, UPSTREAM) as server:
            session = await opened(server, "2025-03-26")
            mark = tmp_path / "mark"
            params = {"name": "Waits", "arguments": {"mark": str(mark)}}
            first = asyncio.create_task(session.post(request("tools/call", params, id=7)))
            await until(mark.exists)
            for again in (request("tools/call", params, id="7"), request("ping", id=7)):
                refused = await session.post(again)
                assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
                assert refused.json()["id"] == again["id"]
            batch = (await session.post([request("ping", id=7), request("ping", id=8), request("ping", id=8)])).json()
            assert [("result" in one, one["id"]) for one in batch] == [(False, 7), (True, 8), (False, 8)]
            (tmp_path / "mark.go").touch()
            assert "done" in answer(await first)["result"]["content"][0]["text"]
            assert (await session.call("ping", id=7))["result"] == {}

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_mcp_12_mcp_14_mcp_30_a_call_tells_logs_and_asks_over_http(tmp_path: Path, era: str) -> None:
    async def main() -> None:
        write_module(tmp_path, "Asks", ASKS)
        names = iter(["one", "two"])
        heard: list[Any] = []
        lines: list[Any] = []

        async def answer(_context: Any, params: ElicitRequestParams) -> ElicitResult:
            return ElicitResult(action="accept", content={"name": next(names)})

        async def hear(done: float, total: float | None, message: str | None) -> None:
            heard.append((done, total, message))

        async def logged(params: Any) -> None:
            lines.append(params.data)

        async with running(tmp_path, UPSTREAM) as server:
            options = {"elicitation_callback": answer, "logging_callback": logged, "log_level": "info"}
            async with client_at(server, era, **options) as client:
                result = await client.call_tool("Asks", {}, progress_callback=hear)
                assert result.structured_content == {"names": ["one", "two"]}
                await until(lambda: heard and lines)
                assert (heard, lines) == ([(1, 2, "half")], [{"told": "before"}])
            assert finished(server) == [Outcome.SUCCESS]

    run(main())


def test_mcp_16_ws_17_a_session_hears_over_its_own_stream_that_a_tool_client_came(tmp_path: Path) -> None:
    async def main() -> None:
        told: list[ServerNotification] = []

        async def hear(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                told.append(message)

        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            client_at(server, "legacy", message_handler=hear) as client,
        ):
            await client.list_tools()
            async with tool_client(server) as owner, asyncio.timeout(20):
                while not told:  # the stream of the session opens in the background
                    await registered(owner)
                    await asyncio.sleep(0.3)
                    await owner.send({"type": "unregister_tool", "data": {"name": "roll"}})
                    await owner.receive()

    run(main())


def test_mcp_16_a_subscription_over_http_hears_that_a_tool_client_came_and_went(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            client_at(server, MODERN) as client,
            client.listen(tools_list_changed=True) as subscription,
            asyncio.timeout(20),
        ):

            async def names() -> set[str]:
                return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}

            events = aiter(subscription)
            async with tool_client(server) as owner:
                await registered(owner)
                assert type(await anext(events)).__name__ == "ToolsListChanged"
                assert "roll" in await names()
            await anext(events)
            assert "roll" not in await names()

    run(main())


def test_mcp_27_requests_of_one_client_without_a_session_share_its_limit(tmp_path: Path) -> None:
    async def main() -> None:
        write_module(tmp_path, "Waits", WAITS)
        config = ["MCPMaxRunningPerClient=2"]
        async with running(tmp_path, UPSTREAM, config=config) as server, client_at(server, MODERN) as client:
            marks = [tmp_path / f"mark{number}" for number in range(4)]
            calls = [asyncio.create_task(client.call_tool("Waits", {"mark": str(mark)})) for mark in marks]
            door = await server.services.mcp.serving.door()
            await until(lambda: door.running == 4)
            await until(lambda: sum(mark.exists() for mark in marks) == 2)
            for mark in marks:
                await asyncio.to_thread(mark.with_name(mark.name + ".go").touch)
            for result in await asyncio.gather(*calls):
                assert not result.is_error

    run(main())
