"""A command that brings a name of its own, at the doors there are (D68, D69), with real processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import LOCAL, CallContext, CallFinished, Door, ToolCall
from app.tools.names import RestrictedNames
from tests.cli.commands import command
from tests.hub.clients import SOCKET_KEY
from tests.hub.tool_clients.wire_tool_clients import execute, refused, register, told, tool_client
from tests.node.bench import running_node, until
from tests.server import call_text, run, running, write_plugin

SHOWS_INPUT = """
import json, sys
print(json.dumps({"status": "success", "result": {"got": json.loads(sys.stdin.read() or "{}")}}))
"""

COMMANDS: list[Mapping[str, Any]] = [
    {"commandIdentifier": "ReadChapter", "command": "read", "toolName": "novel_read", "description": "Reads."},
    {
        "commandIdentifier": "write",
        "toolName": "novel_write",
        "description": "Writes.",
        "typed": True,
        "parameters": {"type": "object", "properties": {"chapterNumber": {"type": "integer"}}},
    },
    {"commandIdentifier": "rest", "description": "Rests."},
]


def write_novel(home: Path) -> None:
    write_plugin(home, "Novel", SHOWS_INPUT, capabilities={"invocationCommands": COMMANDS})


def test_a_chat_learns_the_names_and_calls_them_and_the_program_is_told_which_command(tmp_path: Path) -> None:
    async def main() -> None:
        write_novel(tmp_path)
        calls = call_text("novel_read", maid="Nova") + call_text("novel_write", Chapter_Number="7")
        async with (
            ScriptedUpstream([say(calls), say("done")]) as upstream,
            running(tmp_path, upstream.base_url, config=["VarTools={{VCPNovel}}"]) as server,
        ):
            assert (await server.chat({"role": "system", "content": "{{VarTools}}"}, "read")).status_code == 200
            shown = upstream.bodies[0]["messages"][0]["content"]
            assert [line for line in shown.splitlines() if line.startswith("- ")] == [
                "- Novel (novel_read) - 命令: N/A:",
                "- Novel (novel_write) - 命令: N/A:",
                "- Novel (Novel) - 命令: N/A:",
            ]
            told = json.dumps(upstream.bodies[1]["messages"][-1]["content"], ensure_ascii=False)
            assert "novel_read" in told
            finished = [event for event in server.events if isinstance(event, CallFinished)]
            seen = {event.call.tool: (event.call.command, event.result.structured) for event in finished}
            assert seen == {
                "novel_read": ("read", {"got": {"maid": "Nova", "command": "read"}}),
                "novel_write": ("write", {"got": {"chapterNumber": 7, "command": "write"}}),
            }
            assert {event.spec and event.spec.name for event in finished} == {"Novel"}

    run(main())


@pytest.mark.parametrize(
    ("name", "arguments", "got"),
    [
        ("novel_read", {}, {"command": "read"}),
        ("novel_read", {"command": "read"}, {"command": "read"}),
        ("Novel.ReadChapter", {}, {"command": "ReadChapter"}),
        ("Novel.rest", {"n": "1"}, {"n": "1", "command": "rest"}),
        ("Novel", {"command": "read"}, {"command": "read"}),
    ],
)
def test_other_doors_know_the_same_names(
    tmp_path: Path, name: str, arguments: dict[str, str], got: dict[str, str]
) -> None:
    async def main() -> None:
        write_novel(tmp_path)
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            text = call_text(name, **arguments)
            answer = await server.client.post("/v1/human/tool", content=text, headers={"Content-Type": "text/plain"})
            assert answer.json()["got"] == got
            result = await server.services.router.call(
                ToolCall("c", name, arguments, texts=arguments), CallContext("t", Door.AGENT)
            )
            assert result.structured == {"got": got}

    run(main())


def test_a_scheduled_call_keeps_the_name_and_its_command(tmp_path: Path) -> None:
    async def main() -> None:
        write_novel(tmp_path)
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            text = call_text("novel_write", chapter_number="7", timely_contact="2099-01-01-10:00")
            answer = await server.client.post("/v1/human/tool", content=text, headers={"Content-Type": "text/plain"})
            assert answer.json()["tool_name"] == "novel_write"
            (file,) = (tmp_path / "VCPTimedContacts").glob("*.json")
            assert json.loads(file.read_text(encoding="utf-8"))["tool_call"] == {
                "tool_name": "novel_write",
                "arguments": {"chapterNumber": 7},
            }

    run(main())


@pytest.mark.parametrize("far", [False, True], ids=["ours", "a node's"])
def test_tool_clients_know_the_same_names_and_cannot_take_them_also_those_of_a_far_node(
    tmp_path: Path, far: bool
) -> None:
    """D68, D69, WS-4, WS-17: a name is the name of one thing, wherever the tool runs."""
    home, shed = tmp_path / "home", tmp_path / "shed"
    write_novel(shed if far else home)
    shed.mkdir(exist_ok=True)

    async def main() -> None:
        async with (
            running(home, "http://127.0.0.1:9", config=(f"VCP_Key={SOCKET_KEY}",)) as server,
            running_node(shed, server.url, key=lambda: SOCKET_KEY),
            tool_client(server) as client,
        ):
            await until(lambda: "Novel" in server.services.router.specs())
            listed = [one.name for one in server.services.router.listed() if one.spec.name == "Novel"]
            assert listed == ["novel_read", "novel_write", "Novel.rest"]
            asked: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
                ("novel_read", {}, {"command": "read"}),
                ("Novel.rest", {"n": "1"}, {"n": "1", "command": "rest"}),
                *([("shed#Novel.rest", {}, {"command": "rest"})] if far else []),
            ]
            for name, given, got in asked:
                await client.send(execute(name, name, args=given))
                started, done = await told(client, 2)
                assert started["data"]["name"] == name
                assert done["data"]["result"]["got"] == got, name
            for name in ("Novel", "novel_read", "Novel.rest", "Novel.ReadChapter"):
                assert await refused(client, register(name)) == "TOOL_EXISTS", name
            events = [event for event in server.events if isinstance(event, CallFinished)]
            assert [event.call.tool for event in events] == [name for name, _, _ in asked]
            numbers = await server.client.get("/metrics")
            assert 'tool="Novel"' in numbers.text  # one series for a tool, whatever it was called by
            assert "novel_read" not in numbers.text

    run(main())


def test_the_command_line_knows_the_same_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_novel(tmp_path)
    for name, got in (("novel_write", {"command": "write", "chapterNumber": 7}), ("Novel.rest", {"command": "rest"})):
        words = ["Chapter_Number=7"] if "chapterNumber" in got else []
        ended = command(capsys, "tool", "--home", tmp_path, name, *words)
        assert ended.code == 0, ended
        assert json.loads(ended.out)["got"] == got
    unknown = command(capsys, "tool", "--home", tmp_path, "novel_READ")
    assert unknown.code == 2
    assert "novel_read, novel_write, Novel.rest" in unknown.err


def test_every_listed_name_has_a_form_for_doors_of_few_characters_and_the_way_back(tmp_path: Path) -> None:
    """D68: what native calls and OpenAPI will list leads to the tool again, exactly."""

    async def main() -> None:
        write_novel(tmp_path)
        async with (
            running(tmp_path, "http://127.0.0.1:9", config=(f"VCP_Key={SOCKET_KEY}",)) as server,
            tool_client(server) as client,
        ):
            brought = ("Novel__rest", "掷骰", "a b", "a#b", "x" * 128)
            for name in brought:
                await client.send(register(name))
                await told(client, 1)
            router = server.services.router
            listed = {one.name: one.spec for one in router.listed()}
            assert {"novel_read", "Novel.rest", *brought} <= listed.keys()
            forms = RestrictedNames(
                [name for name, spec in listed.items() if spec.origin == LOCAL],
                [name for name, spec in listed.items() if spec.origin != LOCAL],
            )
            for name, spec in listed.items():
                back = forms.full(forms.restricted(name))
                assert back == name
                assert router.find_spec(back) is spec
            assert forms.full("Novel__rest") == "Novel.rest"
            assert forms.full("novel_read") == "novel_read"

    run(main())
