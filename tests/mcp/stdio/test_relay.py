"""A stdio connection that another server serves, over a real HTTP connection (D88; MCP-3, MCP-58, MCP-60 … MCP-63)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions

from app.errors import ConfigError
from app.mcp.stdio.relay import Relay
from app.mcp.stdio.session import Destination
from app.web.server import serve
from tests.mcp.stdio.wires import MODERN, Client, Tools, call, initialize, linked, notification, request
from tests.server import ECHO, KEY, run, running, write_plugin
from tests.waiting import until


class Upstream(Tools):
    """A server whose handlers ask and tell their client, and which remembers what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        options = self.server.create_initialization_options(NotificationOptions(tools_changed=True))
        self.server.create_initialization_options = lambda *_, **__: options  # type: ignore[method-assign]
        self.headers: list[dict[str, str]] = []
        self.subscribed: list[str] = []
        self.sessions = 0
        self.server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        self.server.add_request_handler("resources/list", types.PaginatedRequestParams, self._resources)
        self.server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)

    async def _subscribe(self, context: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.append(str(params.uri))
        return types.EmptyResult()

    async def _resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def _initialized(self, context: Any, params: Any) -> None:
        self.sessions += 1

    async def _call(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self.headers.append({name: value for name, value in context.request.headers.items() if name.startswith("mcp")})
        self.headers[-1]["authorization"] = context.request.headers.get("authorization", "")
        if params.name == "ask":
            schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
            answer = await context.session.elicit_form("who?", schema, related_request_id=context.request_id)
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(answer.content))])
        if params.name == "steps":
            for step in (1, 2):
                await context.session.report_progress(step, 2, f"step {step}")
        return await super()._call(context, params)


@asynccontextmanager
async def served(upstream: Upstream) -> AsyncIterator[str]:
    async with serve(upstream.server.streamable_http_app(), grace=0) as address:
        yield f"{address}/mcp"


@asynccontextmanager
async def relayed(where: Callable[[], Destination]) -> AsyncIterator[tuple[Client, Relay]]:
    relay = Relay(where)
    async with linked(relay.drive) as (client, _):
        yield client, relay


def at(url: str) -> Callable[[], Destination]:
    return lambda: Destination(url, "the-key", url)


async def answer_to(client: Client, id: Any) -> tuple[Any, list[Any]]:
    """The answer to a request, and what came before it."""
    before = []
    while (frame := await client.next()) is not None:
        if frame.get("id") == id and "method" not in frame:
            return frame, before
        before.append(frame)
    raise AssertionError(before)


def test_a_client_is_served_through_as_if_it_were_there() -> None:
    """D88: the handshake with its version, lists, calls, errors; and our key, which no client has to know (MCP-63)."""

    async def test() -> None:
        upstream = Upstream()
        async with served(upstream) as url, relayed(at(url)) as (client, _):
            result = await client.begin("2025-06-18")
            assert (result["protocolVersion"], result["serverInfo"]["name"]) == ("2025-06-18", "test")
            assert (await client.ask(request(1, "tools/list")))["result"]["tools"][0]["name"] == "echo"
            answer = await client.ask(call("two", "echo", text="密"))
            assert (answer["id"], answer["result"]["content"][0]["text"]) == ("two", "密")
            assert (await client.ask(request(3, "nothing/here")))["error"]["code"] == -32601
            assert (await client.ask(request(4, "ping")))["result"] == {}
            assert upstream.headers[0]["authorization"] == "Bearer the-key"
            assert upstream.headers[0]["mcp-protocol-version"] == "2025-06-18"

    run(test())


def test_the_modern_era_goes_through_with_its_headers() -> None:
    """MCP-31, MCP-46."""

    async def test() -> None:
        upstream = Upstream()
        async with served(upstream) as url, relayed(at(url)) as (client, _):
            found = await client.ask(request(1, "server/discover", MODERN))
            assert found["result"]["supportedVersions"] == ["2026-07-28"]
            answer = await client.ask(call(2, "echo", modern=True, text="hi"))
            assert answer["result"]["content"][0]["text"] == "hi"
            headers = upstream.headers[0]
            assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "echo")
            assert (await client.ask(initialize(3)))["error"]["code"] == -32022

    run(test())


def test_eras_and_order_are_kept_before_anything_is_sent() -> None:
    """MCP-3, MCP-10."""

    async def test() -> None:
        upstream = Upstream()
        async with served(upstream) as url, relayed(at(url)) as (client, _):
            assert (await client.ask(request(1, "ping")))["result"] == {}
            assert (await client.ask(request(2, "tools/list")))["error"]["code"] == -32602
            assert (await client.ask(call(3, "echo", modern=True)))["error"]["code"] == -32600
            await client.begin()
            assert (await client.ask(call(4, "echo", modern=True)))["error"]["code"] == -32600
            assert upstream.headers == []

    run(test())


def test_progress_comes_back_under_the_clients_token() -> None:
    """MCP-12, MCP-60."""

    async def test() -> None:
        async with served(Upstream()) as url, relayed(at(url)) as (client, _):
            await client.begin()
            params = {"name": "steps", "arguments": {}, "_meta": {"progressToken": "token-7"}}
            await client.send(request(1, "tools/call", params))
            _, before = await answer_to(client, 1)
            told = [frame["params"] for frame in before if frame["method"] == "notifications/progress"]
            assert [(one["progressToken"], one["progress"], one["message"]) for one in told] == [
                ("token-7", 1, "step 1"),
                ("token-7", 2, "step 2"),
            ]

    run(test())


@pytest.mark.parametrize("modern", [False, True])
def test_cancelling_ends_the_call_there_and_gets_no_answer(modern: bool) -> None:
    """MCP-8, MCP-13, MCP-60."""

    async def test() -> None:
        upstream = Upstream()
        async with served(upstream) as url, relayed(at(url)) as (client, _):
            if not modern:
                await client.begin()
            await client.send(call(1, "wait", modern=modern, text="one"))
            await until(lambda: upstream.seen == ["wait"])
            await client.send(notification("notifications/cancelled", {"requestId": 1}))
            await until(lambda: upstream.cancelled == ["one"])
            answer = await client.ask(call(1, "echo", modern=modern, text="next"))  # the same id, at once
            assert answer["result"]["content"][0]["text"] == "next"

    run(test())


def test_a_client_that_leaves_takes_its_calls_with_it() -> None:
    """MCP-60."""

    async def test() -> None:
        upstream = Upstream()
        async with served(upstream) as url:
            async with relayed(at(url)) as (client, _relay):
                await client.begin()
                await client.send(call(1, "wait", text="one"))
                await until(lambda: upstream.seen == ["wait"])
                client.connection._limits = type(client.connection._limits)(drain_seconds=0.01)
                client.end()
                assert [frame["id"] for frame in await client.rest()] == [1]
            await until(lambda: upstream.cancelled == ["one"])

    run(test())


def test_questions_reach_the_client_and_answers_the_call() -> None:
    """MCP-30, MCP-62: under an id of our own."""

    async def test() -> None:
        async with served(Upstream()) as url, relayed(at(url)) as (client, _):
            begin = initialize()
            begin["params"]["capabilities"] = {"elicitation": {}}
            await client.ask(begin)
            await client.send(notification("notifications/initialized"), call(1, "ask"))
            question = await client.next()
            assert question["method"] == "elicitation/create"
            assert question["params"]["message"] == "who?"
            answer = {"action": "accept", "content": {"name": "Nova"}}
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
            answered, _ = await answer_to(client, 1)
            assert answered["result"]["content"][0]["text"] == "{'name': 'Nova'}"
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})  # again: nobody asks
            assert (await client.ask(request(2, "ping")))["id"] == 2

    run(test())


def test_after_a_restart_the_next_request_goes_to_the_new_server_in_the_same_state() -> None:
    """D88, MCP-58: the handshake and subscriptions again, and the news that lists may be others."""

    async def test() -> None:
        first, second = Upstream(), Upstream()
        here: list[str] = []

        def where() -> Destination:
            if not here:
                raise ConfigError("nobody is there")
            return Destination(here[0], "key", here[0])

        async with relayed(where) as (client, _):
            async with served(first) as url:
                here.append(url)
                await client.begin()
                assert "result" in await client.ask(request(1, "resources/subscribe", {"uri": "x:y"}))
                assert (await client.ask(call(2, "echo", text="a")))["result"]["content"][0]["text"] == "a"
                await client.send(call(3, "wait"))
                await until(lambda: first.seen[-1] == "wait")
            lost, _ = await answer_to(client, 3)
            assert "error" in lost
            here.clear()
            refused, _ = await answer_to_ask(client, call(4, "echo", text="b"))
            assert "nobody is there" in refused["error"]["message"]
            async with served(second) as url:
                here.append(url)
                answer, before = await answer_to_ask(client, call(5, "echo", text="c"))
                assert answer["result"]["content"][0]["text"] == "c"
                assert {frame["method"] for frame in before} >= {"notifications/tools/list_changed"}
                assert (second.sessions, second.subscribed) == (1, ["x:y"])

    run(test())


async def answer_to_ask(client: Client, frame: Any) -> tuple[Any, list[Any]]:
    await client.send(frame)
    return await answer_to(client, frame["id"])


def test_a_session_that_the_server_has_forgotten_is_opened_anew_and_the_request_sent_again() -> None:
    """MCP-58, MCP-41: once, and without the client noticing more than changed lists."""

    async def test() -> None:
        upstream = Upstream()
        async with served(upstream) as url, relayed(at(url)) as (client, _):
            await client.begin()
            assert "result" in await client.ask(call(1, "echo", text="a"))
            sessions = upstream.server.session_manager._server_instances
            for transport in list(sessions.values()):
                await transport.terminate()
            sessions.clear()
            await client.send(call(2, "echo", text="b"), call(3, "echo", text="c"))
            found = {}
            while len(found) < 2:
                frame = await client.next()
                if "id" in frame:
                    assert "result" in frame, frame
                    found[frame["id"]] = frame["result"]["content"][0]["text"]
            assert found == {2: "b", 3: "c"}

    run(test())


def test_a_server_that_cannot_be_reached_is_told_in_plain_words() -> None:
    async def test() -> None:
        async with relayed(at("http://127.0.0.1:9/mcp")) as (client, _):
            refused = await client.ask(initialize())
            assert refused["id"] == "init"
            assert "connection to the server" in refused["error"]["message"]
            assert (await client.ask(request(1, "ping")))["result"] == {}

    run(test())


@pytest.mark.parametrize("modern", [False, True])
def test_news_of_the_real_server_reach_the_client(tmp_path: Path, modern: bool) -> None:
    """MCP-16, MCP-31: legacy sessions are told; a modern client under the id with which it asked to be."""

    async def test() -> None:
        write_plugin(tmp_path, "First", ECHO)
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            where = Destination(f"{server.url}/mcp", KEY)
            async with relayed(lambda: where) as (client, _):
                if modern:
                    wanted = {"notifications": {"toolsListChanged": True}}
                    await client.send(request("news", "subscriptions/listen", {**wanted, **MODERN}))
                    acknowledged = await client.next()
                    assert acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "news"
                else:
                    await client.begin()
                assert "result" in await client.ask(request(1, "tools/list", MODERN if modern else None))
                write_plugin(tmp_path, "Second", ECHO)
                await server.services.reload()
                while (news := await client.next())["method"] != "notifications/tools/list_changed":
                    assert news["method"].endswith("/list_changed")  # of other lists
                if modern:
                    assert news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "news"
                answer = await client.ask(call(2, "Second", modern=modern, text="new"))
                assert answer["result"]["content"][0]["text"] == "new"

    run(test())
