"""Clients hear that lists have changed: sessions, and subscriptions of clients without one (MCP-16, WS-17)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from mcp_types import (
    Completion,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    Prompt,
    ReadResourceResult,
    Resource,
    TextResourceContents,
)

from app.errors import BadRequestError, NotFoundError, VcpError
from app.extend import CallContext
from app.mcp.server import listeners
from tests.mcp.server.bench import MODERN, DoorBench, says
from tests.mcp.server.raw import Raw, connected, modern
from tests.server import run
from tests.waiting import until

TOOLS = "notifications/tools/list_changed"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Resources:
    """One text under ``plugin://a``."""

    def __init__(self) -> None:
        self.told: Callable[[str], None] = lambda _: None

    async def list(self, cursor: str | None) -> ListResourcesResult:
        if cursor is not None:
            raise BadRequestError("cursor")
        return ListResourcesResult(resources=[Resource(name="a", uri="plugin://a")])

    async def templates(self, cursor: str | None) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[])

    async def read(self, uri: str) -> ReadResourceResult:
        if uri == "plugin://large":
            raise VcpError("too large")
        if uri != "plugin://a":
            raise NotFoundError(f"no {uri}")
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, text="text")])

    async def complete(self, template: str, argument: str, value: str, given: Mapping[str, str]) -> Completion:
        return Completion(values=[f"{template}|{argument}|{value}|{dict(given)}"])

    def changed(self, told: Callable[[str], None]) -> None:
        self.told = told


class Prompts:
    """One prompt, ``p``."""

    def __init__(self) -> None:
        self.told: Callable[[], None] = lambda: None

    async def list(self, cursor: str | None = None) -> ListPromptsResult:
        return ListPromptsResult(prompts=[Prompt(name="p")])

    async def get(self, name: str, arguments: Mapping[str, str], context: CallContext) -> GetPromptResult:
        if name != "p":
            raise NotFoundError(f"no {name}")
        if "needed" not in arguments:
            raise BadRequestError("needed is missing")
        return GetPromptResult(messages=[])

    async def complete(self, name: str, argument: str, value: str, given: Mapping[str, str]) -> Completion:
        raise NotFoundError(f"no {name}")

    def changed(self, told: Callable[[], None]) -> None:
        self.told = told


async def listening(raw: Raw, **wanted: Any) -> str:
    """Open a subscription; its id."""
    await raw.send("subscriptions/listen", modern({"notifications": wanted}), id="sub")
    note = await raw.take()  # the acknowledgement is the first that comes
    assert note["method"] == "notifications/subscriptions/acknowledged"
    assert note["params"]["_meta"][SUBSCRIPTION] == "sub"
    raw.notes.clear()
    return "sub"


async def quiet(raw: Raw) -> None:
    """Nothing more was told; a round trip is behind all that was to be told."""
    await asyncio.sleep(0.05)
    assert raw.waiting() == 0


def test_mcp_16_every_session_hears_that_tools_have_changed_and_a_burst_is_told_once() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as one, connected(bench.door) as two:
            await one.hello("2024-11-05")
            await two.hello()
            await until(lambda: bench.door._listeners.sessions == 2)
            for number in range(50):
                bench.tools.add(f"T{number}", says)
            assert await one.note(TOOLS) == {"jsonrpc": "2.0", "method": TOOLS}
            await two.note(TOOLS)
            await quiet(one)
            await quiet(two)
            bench.tools.put({})
            await one.note(TOOLS)

    run(main())


def test_mcp_16_a_subscription_hears_what_it_asked_for_stamped_with_its_id() -> None:
    """MCP-31: acknowledged first; nothing else is told to a client without a session."""

    async def main() -> None:
        shelf, agents = Resources(), Prompts()
        async with DoorBench(resources=shelf, prompts=agents) as bench, connected(bench.door) as raw:
            await listening(raw, toolsListChanged=True, resourceSubscriptions=["plugin://a"])
            bench.tools.add("T", says)
            note = await raw.note(TOOLS)
            assert note["params"]["_meta"][SUBSCRIPTION] == "sub"
            agents.told()
            shelf.told("")
            shelf.told("plugin://b")
            shelf.told("plugin://a")
            note = await raw.note("notifications/resources/updated")
            assert note["params"]["uri"] == "plugin://a"
            await quiet(raw)
            await raw.send("notifications/cancelled", {"requestId": "sub"})
            await raw.ask("server/discover", modern())
            bench.tools.add("U", says)
            await quiet(raw)

    run(main())


def test_mcp_16_without_a_subscription_a_client_without_a_session_hears_nothing() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            await raw.ask("server/discover", modern())
            await raw.send("notifications/initialized", modern())
            bench.tools.add("T", says)
            await quiet(raw)

    run(main())


def test_mcp_16_what_the_door_does_not_show_is_told_to_nobody() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.shown = type(bench.shown)(deny=("Hidden*",))
            await raw.hello()
            await until(lambda: bench.door._listeners.sessions == 1)
            bench.tools.add("Hidden1", says)
            await quiet(raw)
            bench.shown = type(bench.shown)()  # a reload of the rules
            bench.door.tools_changed()
            await raw.note(TOOLS)

    run(main())


def test_a_session_that_is_gone_is_forgotten() -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            async with connected(bench.door) as raw:
                await raw.hello()
                await until(lambda: bench.door._listeners.sessions == 1)
            assert bench.door._listeners.sessions == 0
            bench.tools.add("T", says)

    run(main())


def test_changes_may_be_told_from_threads_and_after_the_end_nobody_minds() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            await raw.hello()
            await until(lambda: bench.door._listeners.sessions == 1)
            await asyncio.to_thread(bench.tools.add, "T", says)
            await raw.note(TOOLS)
            await bench.door.stop()
            bench.tools.add("U", says)
            await asyncio.to_thread(bench.tools.add, "V", says)

    run(main())


def test_the_end_of_the_door_ends_subscriptions_with_their_result() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            await listening(raw, toolsListChanged=True)
            await bench.door.stop()
            result = (await raw.reply("sub"))["result"]
            assert result["_meta"][SUBSCRIPTION] == "sub"

    run(main())


# --- resources, prompts, completion ---------------------------------------------------------------------------------


def test_mcp_9_shelves_that_are_there_are_promised() -> None:
    async def main() -> None:
        async with DoorBench(resources=Resources(), prompts=Prompts()) as bench, connected(bench.door) as raw:
            capabilities = (await raw.hello())["result"]["capabilities"]
            assert capabilities == {
                "tools": {"listChanged": True},
                "resources": {"listChanged": True, "subscribe": True},
                "prompts": {"listChanged": True},
                "completions": {},
                "logging": {},
            }

    run(main())


def test_mcp_16_prompts_and_resources_are_told_and_single_resources_to_who_watches_them() -> None:
    async def main() -> None:
        shelf, agents = Resources(), Prompts()
        async with DoorBench(resources=shelf, prompts=agents) as bench, connected(bench.door) as raw:
            await raw.hello()
            await until(lambda: bench.door._listeners.sessions == 1)
            agents.told()
            await raw.note("notifications/prompts/list_changed")
            shelf.told("")
            await raw.note("notifications/resources/list_changed")
            shelf.told("plugin://a")
            await quiet(raw)
            assert (await raw.ask("resources/subscribe", {"uri": "plugin://a"}))["result"] == {}
            shelf.told("plugin://a")
            note = await raw.note("notifications/resources/updated")
            assert note["params"] == {"uri": "plugin://a"}
            assert (await raw.ask("resources/unsubscribe", {"uri": "plugin://a"}))["result"] == {}
            shelf.told("plugin://a")
            await quiet(raw)

    run(main())


def test_watched_resources_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        from app.mcp.server import shelves

        monkeypatch.setattr(listeners, "MAX_URIS", 2)
        monkeypatch.setattr(shelves, "MAX_URIS", 2)
        async with DoorBench(resources=Resources()) as bench, connected(bench.door) as raw:
            await raw.hello()
            for number in range(2):
                assert "result" in await raw.ask("resources/subscribe", {"uri": f"plugin://{number}"})
            assert "result" in await raw.ask("resources/subscribe", {"uri": "plugin://0"})
            assert (await raw.ask("resources/subscribe", {"uri": "plugin://2"}))["error"]["code"] == -32602

    run(main())


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
def test_mcp_5_mcp_28_mcp_29_errors_of_the_shelves_are_those_of_the_protocol(era: str) -> None:
    async def main() -> None:
        async with DoorBench(resources=Resources(), prompts=Prompts()) as bench, connected(bench.door) as raw:

            async def asked(method: str, params: dict[str, Any]) -> dict[str, Any]:
                return await raw.ask(method, modern(params) if era == MODERN else params)

            if era != MODERN:
                await raw.hello()
            unknown = -32602 if era == MODERN else -32002
            assert (await asked("resources/read", {"uri": "plugin://x"}))["error"]["code"] == unknown
            assert (await asked("resources/read", {"uri": "plugin://large"}))["error"]["code"] == -32603
            assert (await asked("resources/list", {"cursor": "x"}))["error"]["code"] == -32602
            assert (await asked("resources/read", {"uri": "plugin://a"}))["result"]["contents"][0]["text"] == "text"
            assert (await asked("resources/templates/list", {}))["result"]["resourceTemplates"] == []
            assert (await asked("prompts/list", {}))["result"]["prompts"] == [{"name": "p"}]
            for params in ({"name": "q"}, {"name": "p"}, {"name": "p", "arguments": {}}):
                assert (await asked("prompts/get", params))["error"]["code"] == -32602
            assert "result" in await asked("prompts/get", {"name": "p", "arguments": {"needed": "1"}})

    run(main())


def test_mcp_17_completion_asks_the_right_shelf() -> None:
    async def main() -> None:
        async with DoorBench(resources=Resources(), prompts=Prompts()) as bench, connected(bench.door) as raw:
            await raw.hello()
            params = {
                "ref": {"type": "ref/resource", "uri": "plugin://{name}"},
                "argument": {"name": "name", "value": "v"},
                "context": {"arguments": {"other": "o"}},
            }
            answer = (await raw.ask("completion/complete", params))["result"]
            assert answer["completion"]["values"] == ["plugin://{name}|name|v|{'other': 'o'}"]
            params["ref"] = {"type": "ref/prompt", "name": "p"}
            assert (await raw.ask("completion/complete", params))["error"]["code"] == -32602
        async with DoorBench(prompts=Prompts()) as bench, connected(bench.door) as raw:
            await raw.hello()
            params["ref"] = {"type": "ref/resource", "uri": "plugin://{name}"}
            assert (await raw.ask("completion/complete", params))["error"]["code"] == -32602

    run(main())
