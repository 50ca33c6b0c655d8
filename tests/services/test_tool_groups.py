"""Groups of tools in a whole server: chats, MCP clients, live files, and what reaches the model API."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from mcp.client.client import Client

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallFinished
from app.mcp.client.status import ServerState
from app.reload.watcher import Pace
from app.services.tool_groups import server_groups
from tests.mcp.client.bench import bench
from tests.server import ECHO, call_text, run, running, write_plugin
from tests.waiting import until

PEER = Path(__file__).parents[1] / "mcp" / "client" / "peer.py"


def described(text: str) -> dict[str, Any]:
    return {"capabilities": {"invocationCommands": [{"command": "run", "description": text}]}}


def write_groups(home: Path, **groups: dict[str, Any]) -> None:
    (home / "tool_groups.json").write_text(json.dumps({"groups": groups}), "utf-8")


def test_a_chat_sees_the_groups_reads_one_and_calls_its_tool(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Parrot", ECHO, groups="birds", **described("Says {{Port}} again"))
        write_plugin(tmp_path, "Alone", ECHO, **described("Alone"))
        write_groups(tmp_path, birds={"description": "All that flies over {{VarCity}}"})
        script = [
            say(call_text("get-modular-tools", group="birds")),
            say(call_text("call-modular-tool", group="birds", name="Parrot", args='{"text": "from args"}')),
            say(call_text("call-modular-tool", group="birds", name="Parrot", text="flat 文字")),
            say("done"),
        ]
        config = ["VarCity=Paris", "PORT=6005"]
        async with (
            ScriptedUpstream(script) as upstream,
            running(tmp_path, upstream.base_url, config=config) as server,
        ):
            system = {"role": "system", "content": "{{VCPToolGroups}}\n#\n{{VCPToolGroup::birds}}\n#\n{{VCPAllTools}}"}
            assert (await server.chat(system, "go")).status_code == 200
            listed, group, everything = upstream.bodies[0]["messages"][0]["content"].split("\n#\n")
            assert "- birds: All that flies over" in listed
            assert "Says" not in listed
            assert group.endswith("    Says 6005 again")
            assert "modular" not in everything
            told = [json.dumps(body["messages"][-1]["content"], ensure_ascii=False) for body in upstream.bodies]
            assert "inputSchema" in told[1]
            assert "Parrot" in told[1]
            assert "Alone" not in told[1]
            assert "from args" in told[2]
            assert "flat 文字" in told[3]
            ended = [event.call.tool for event in server.events if isinstance(event, CallFinished)]
            assert ended == ["get-modular-tools", "Parrot", "call-modular-tool", "Parrot", "call-modular-tool"]

    run(main())


def test_groups_follow_the_file_and_the_plugins_while_the_server_runs(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Parrot", ECHO, **described("Says it again"))
        async with ScriptedUpstream([]) as upstream, running(tmp_path, upstream.base_url) as server:
            router = server.services.router
            assert "get-modular-tools" not in router.specs()
            write_groups(tmp_path, birds={"tools": ["Parrot"]})
            await until(lambda: "get-modular-tools" in router.specs())
            write_plugin(tmp_path, "Dog", ECHO, groups=["pets"], **described("Barks"))
            await server.services.reload()
            (command,) = router.specs()["get-modular-tools"].commands
            assert command.parameters is not None
            assert command.parameters["properties"]["group"]["enum"] == ["birds", "pets"]
            (tmp_path / "tool_groups.json").unlink()
            shutil.rmtree(tmp_path / "Plugin" / "Dog")
            await server.services.reload()
            await until(lambda: "get-modular-tools" not in router.specs())

    run(main())


def test_an_mcp_client_may_be_shown_the_two_tools_alone(tmp_path: Path) -> None:
    """``MCPAllow`` names the two; the tools behind them are reached, but for those that ``MCPDeny`` names."""

    async def main() -> None:
        for name in ("Parrot", "Shell"):
            write_plugin(tmp_path, name, ECHO, groups="birds", **described(name))
        config = ["MCPAllow=*-modular-tool*", "MCPDeny=Shell"]
        async with (
            ScriptedUpstream([]) as upstream,
            running(tmp_path, upstream.base_url, config=config) as server,
        ):
            door = await server.services.mcp.serving.door()
            async with Client(door.server, mode="legacy") as client:
                listed = (await client.list_tools()).tools
                assert {tool.name for tool in listed} == {"get-modular-tools", "call-modular-tool"}
                shown = await client.call_tool("get-modular-tools", {"group": "birds"})
                assert shown.structured_content is not None
                assert [tool["name"] for tool in shown.structured_content["tools"]] == ["Parrot"]
                given = {"group": "birds", "name": "Parrot", "args": {"text": "x"}}
                assert not (await client.call_tool("call-modular-tool", given)).is_error
                assert (await client.call_tool("call-modular-tool", {**given, "name": "Shell"})).is_error
                # Put off, the call would come back by a door that denies nothing.
                later = {"timely_contact": "2999-01-01-00:00"}
                for wanted in ({**given, **later}, {**given, "args": later}):
                    assert (await client.call_tool("call-modular-tool", {**wanted, "name": "Shell"})).is_error
                assert not list((tmp_path / "VCPTimedContacts").glob("*.json"))
                assert not (await client.call_tool("call-modular-tool", {**given, **later})).is_error
                (task,) = (tmp_path / "VCPTimedContacts").glob("*.json")
                call = json.loads(task.read_text("utf-8"))["tool_call"]
                assert call == {"tool_name": "Parrot", "arguments": {"text": "x"}}

    run(main())


def test_servers_of_the_home_are_groups_under_their_own_descriptions(tmp_path: Path) -> None:
    async def main() -> None:
        entry = {"command": sys.executable, "args": ["-S", "-E", str(PEER)], "description": "Echoes at {{Port}}"}
        (tmp_path / "mcp_servers.json").write_text(json.dumps({"mcpServers": {"peer": entry}}), "utf-8")
        script = [say(call_text("call-modular-tool", group="peer", name="echo", n="7", text="hi")), say("done")]
        async with (
            ScriptedUpstream(script) as upstream,
            running(tmp_path, upstream.base_url, config=["PORT=6005"]) as server,
        ):
            await until(lambda: "peer.echo" in server.services.router.specs())
            system = {"role": "system", "content": "{{VCPToolGroups}}\n#\n{{VCPpeer}}"}
            assert (await server.chat(system, "go")).status_code == 200
            listed, tools = upstream.bodies[0]["messages"][0]["content"].split("\n#\n")
            assert "- peer: Echoes at 6005" in listed
            assert "The tool echo" in tools
            told = json.dumps(upstream.bodies[1]["messages"][-1]["content"], ensure_ascii=False)
            assert '\\"n\\": 7' in told.replace('\\\\\\"', '\\"')  # a number again, by the tool's schema

    run(main())


def test_a_server_that_failed_stays_unavailable_while_it_is_tried_again(tmp_path: Path) -> None:
    """mcp.md 2.4: else the description changes twice at each try, for clients and in prompts."""

    async def main() -> None:
        slow = {
            "command": sys.executable,
            "args": ["-S", "-E", "-c", "import time; time.sleep(0.3); raise SystemExit(3)"],
        }
        async with bench(tmp_path, {"p": slow}) as b:
            (failed,) = server_groups((b.servers,))
            assert "3" in failed.error
            b.clock.now += 1
            await until(lambda: b.status("p").state is ServerState.STARTING)
            assert server_groups((b.servers,)) == (failed,)

    run(main())


def test_fitting_groups_reach_the_model_and_the_history_before_stays_as_it_was(tmp_path: Path) -> None:
    """``ToolGroupsAuto``: in the bodies that go upstream, all before the last user message is the same each time."""

    async def main() -> None:
        write_plugin(tmp_path, "Parrot", ECHO, groups="birds", **described("Says it again"))
        write_plugin(tmp_path, "Painter", ECHO, groups="绘图", **described("生成图片"))
        write_groups(tmp_path, birds={"description": "parrots and other birds"}, 绘图={"description": "画图"})
        talk = ["hello", "a parrot please", "thanks", "帮我画图", "and the birds?", "bye"]
        async with (
            ScriptedUpstream([say(f"answer {number}") for number in range(len(talk))]) as upstream,
            running(tmp_path, upstream.base_url, config=["ToolGroupsAuto=true", "ToolGroupsAutoCount=2"]) as server,
        ):
            history: list[dict[str, Any]] = [{"role": "system", "content": "You are Nova."}]
            for number, said in enumerate(talk):
                history.append({"role": "user", "content": said})
                assert (await server.chat(*history)).status_code == 200
                history.append({"role": "assistant", "content": f"answer {number}"})
            sent = [body["messages"] for body in upstream.bodies]
            injected = [
                [message["content"] for message in messages[1:] if message["role"] == "system"] for messages in sent
            ]
            assert [len(texts) for texts in injected] == [0, 1, 1, 1, 1, 1]
            assert "Says it again" in injected[1][0]
            assert "生成图片" not in injected[2][0]
            assert "生成图片" in injected[3][0]
            for number in range(1, len(sent)):
                before = json.dumps(sent[number - 1][: 2 * number - 1], ensure_ascii=False)[:-1]
                assert json.dumps(sent[number], ensure_ascii=False).startswith(before)
                assert sent[number][-1]["role"] == "user"

    run(main())


def test_the_setting_is_live(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Parrot", ECHO, groups="birds", **described("Says it again"))
        write_groups(tmp_path, birds={"description": "parrots and other birds"})
        async with (
            ScriptedUpstream([say("one"), say("two")]) as upstream,
            running(tmp_path, upstream.base_url, pace=Pace()) as server,
        ):
            await server.chat("a parrot please")
            file = tmp_path / "config.env"
            file.write_text(file.read_text("utf-8") + "ToolGroupsAuto=true\n", "utf-8")
            await server.services.reload()
            await server.chat("a parrot please")
            assert [len(body["messages"]) for body in upstream.bodies] == [1, 2]

    run(main())
