"""Calls of nodes in chats that end early: an interrupt, a hang-up, an upstream that breaks off (D24, D27, P69, P70)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallFinished, ErrorKind, TurnFinished
from tests.hub.clients import address, connected
from tests.hub.nodes.wire_nodes import main_server, node, until
from tests.server import HEADERS, Running, call_text, chat_body, run

ABLE: dict[str, Any] = {"capabilities": {"cancelTool": True}}


def ended(server: Running) -> list[CallFinished]:
    return [event for event in server.events if isinstance(event, CallFinished)]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
def test_an_interrupt_cancels_the_call_at_the_node_and_tells_nobody_of_it(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        calls = call_text("Slow") + call_text("Shot", archery="true")
        async with (
            ScriptedUpstream([say(calls)]) as upstream,
            main_server(tmp_path, upstream=upstream.base_url) as server,
            node(server, "n", "Slow", "Shot", **ABLE) as far,
            connected(address(server.url)) as client,
        ):
            turn = asyncio.create_task(server.chat("go", stream=stream, requestId="r"))
            asked = {(request := await far.asked())["toolName"]: request for _ in range(2)}
            await server.client.post("/v1/interrupt", json={"requestId": "r"})
            assert (await turn).status_code == 200
            cancelled = await far.receive_type("cancel_tool")
            assert cancelled["data"] == {"requestId": asked["Slow"]["requestId"]}
            await far.answer(asked["Slow"], "too late")
            await far.answer(asked["Shot"], "hit")  # calls without reply go on
            await until(lambda: len(ended(server)) == 2)
            assert {event.call.tool: event.result.error_kind for event in ended(server)} == {
                "Slow": ErrorKind.CANCELLED,
                "Shot": None,
            }
            await client.receive_type("connection_ack")
            await client.nothing_waits()

    run(main())


def test_a_client_that_hangs_up_cancels_the_call_at_the_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([say(call_text("Slow"))]) as upstream,
            main_server(tmp_path, upstream=upstream.base_url) as server,
            node(server, "n", "Slow", **ABLE) as far,
        ):
            async with (
                httpx.AsyncClient(base_url=server.url, headers=HEADERS, trust_env=False) as client,
                client.stream("POST", "/v1/chat/completions", json=chat_body("go", stream=True)),
            ):
                request = await far.asked()
            assert (await far.receive())["data"] == {"requestId": request["requestId"]}
            await until(lambda: any(isinstance(event, TurnFinished) for event in server.events))

    run(main())
