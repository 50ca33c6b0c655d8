"""A command that brings a name of its own, at the doors there are (D68, D69), with real processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallContext, CallFinished, Door, ToolCall
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
