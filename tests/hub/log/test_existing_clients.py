"""Clients of the log as there are already, in both profiles (spec 6.2, 13; W9, D16)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from websockets.typing import Origin

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.hub.log.replay import ReplayPace
from tests.hub.clients import Wire, address, connected
from tests.hub.log.told import by_hand, logged
from tests.hub.nodes.wire_nodes import main_server, manifest, node, until
from tests.server import ECHO, call_text, run, write_plugin


async def shown(client: Wire) -> Any:
    """What such a client shows of the next call: it reads ``content`` as JSON, or shows it as it is."""
    data = (await client.receive_type("vcp_log"))["data"]
    assert data.keys() >= {"tool_name", "status", "content"}
    assert isinstance(data["content"], str)
    try:
        read = json.loads(data["content"])
    except ValueError:
        return data["content"]
    return read["MaidName"], read["original_plugin_output"], read["timestamp"][10:11]


@pytest.mark.parametrize("profile", ["baseline", "head"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
def test_a_chat_program_reads_calls_of_plugins_and_nodes(tmp_path: Path, profile: str, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Near", ECHO)
        far_tool = manifest("Far", webSocketPush={"enabled": True, "messageType": "far_push"})
        calls = call_text("Near", text="近", maid="Nova") + call_text("Gone")
        script = [say(calls), say(call_text("Far", maid="Nova")), say("done")]
        async with (
            ScriptedUpstream(script) as upstream,
            main_server(
                tmp_path, f"compat_profile={profile}", "EagerTools=false", upstream=upstream.base_url
            ) as server,
            node(server, "n", far_tool) as far,
            far.answering(lambda _: "远") as came,
            # A page of a desktop program has no other origin than this.
            connected(address(server.url, query="?deviceName=PC"), origin=Origin("null")) as client,
        ):
            assert (await server.chat("go", stream=stream)).status_code == 200
            told = [await shown(client), await shown(client)]
            assert set(told) == {("Nova", "近", "T"), '错误：未找到名为 "Gone" 的插件。'}
            assert await shown(client) == ("Nova", "远", "T")
            pushed = await client.receive_type("far_push")
            assert pushed["data"]["original_plugin_output"] == "远"
            assert ("_vcpContext" in came[0]) is (profile == "head")
            assert came[0]["toolArgs"] == {"maid": "Nova"}
            fed_back = json.dumps(upstream.bodies[2]["messages"][-1], ensure_ascii=False)
            assert ("VCP_TOOL_PAYLOAD" in fed_back) is (profile == "head")
            assert ('来自工具 \\"Far\\" 的结果' in fed_back) is (profile == "baseline")
            await client.nothing_waits()

    run(main())


def test_times_are_those_of_the_zone_of_the_settings(tmp_path: Path) -> None:  # B31
    async def main() -> None:
        async with (
            main_server(tmp_path, "DEFAULT_TIMEZONE=Asia/Kathmandu") as server,
            node(server, "n", "Far") as far,
            far.answering(lambda _: {"timestamp": "the node's own"}),
        ):
            here = address(server.url, query="?deviceName=phone")
            server.services.log_replay.pace = ReplayPace(stable=0, between=0)
            async with connected(here) as client:
                await by_hand(server, "Far")
                assert (await logged(client))["content"]["timestamp"].endswith("+05:45")
            await until(lambda: server.services.log_replay.connections("phone") == 0)
            await by_hand(server, "Far")
            async with connected(here) as client:
                late = await client.receive_type("vcp_log")
                assert late["recordedAt"].endswith("+05:45")
                assert json.loads(late["data"]["content"])["timestamp"].endswith("+05:45")

    run(main())
