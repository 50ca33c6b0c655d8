"""The prompt engine as it is joined to an installation: every kind of placeholder over a real server."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.prompt.dates import festival
from tests.server import ECHO, Running, run, running, write_plugin

CONFIG = [
    "PORT=7123",
    "Image_Key=global",
    "REPORT_TIMEZONE=Pacific/Kiritimati",
    "VarFirst=first {{TarLast}}",
    "VarFile=Guide.TXT",
    "TarLast=last",
    "TarLastly=lastly",
    "VarBack={{TarLastly}}",
    "SarModel1=other, M",
    "SarPrompt1=Guide.TXT",
    "SarModel2=other",
    "SarPrompt2=never",
    "Detector1=foo",
    "Detector_Output1=bar",
    "SuperDetector1=bar",
    "SuperDetector_Output1=baz",
]


def installation(home: Path) -> None:
    files = {
        "agent_map.json": json.dumps({"小克": "sub/克.md", "Nova": "nova.txt"}),
        "Agent/sub/克.md": "小克<{{agent:Nova}}>",
        "Agent/nova.txt": "Nova<{{VarFirst}}>",
        "TVStxt/Guide.TXT": "guide {{TarLastly}}",
        "dailynote/公共/2026-01-01.txt": "$& {{VarFirst}} {{Nova}}",
        "Plugin/ImageServer/config.env": "Image_Key=own\n",
    }
    write_plugin(home, "ImageServer", ECHO)
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def sent(server: Running, up: ScriptedUpstream, *messages: Any) -> list[Any]:
    await server.chat(*messages)
    return [message["content"] for message in up.bodies[-1]["messages"]]


def test_every_placeholder_of_an_installation_is_expanded_in_the_roles_that_may(tmp_path: Path) -> None:
    async def main() -> None:
        installation(tmp_path)
        async with (
            ScriptedUpstream(lambda _: say("ok")) as up,
            running(tmp_path, up.base_url, config=CONFIG) as server,
        ):
            words = {
                "{{小克}}": "小克<Nova<first last>>",
                "{{agent:Nova}}": "Nova<first last>",
                "<<VarFirst>>": "first last",
                "{{TarLast}}{{TarLastly}}": "lastlastly",
                "{{VarFile}}": "guide lastly",
                "{{VarBack}}": "{{TarLastly}}",
                "{{SarPrompt1}}<<SarPrompt2>>": "guide lastly",
                "{{公共日记本}}": "$& {{VarFirst}} {{Nova}}",
                "{{无日记本}}": "[无日记本内容为空或未从插件获取]",
                "{{Port}} {{Image_Key}}": "7123 own",
                "{{VCPNone}} {{Unknown}} {{通用表情包}}": "{{VCPNone}} {{Unknown}} [通用表情包列表不可用]",
                "<<公共日记>> [[公共日记]] [[公共知识库]]": "<<公共日记>> [[公共日记]] [[公共知识库]]",
                "foo": "baz",
            }
            text = "\n".join(words)
            system = {"role": "system", "content": text}
            parts = {"role": "developer", "content": [{"type": "text", "text": text}]}
            user = "\n".join(word if word != "foo" else "foo bar" for word in words)
            whole, listed, plain, noted = await sent(
                server, up, system, parts, user, "[系统提示:]{{Nova}}|{{SarPrompt1}}|{{VarFile}}"
            )
            assert whole.split("\n") == list(words.values())
            assert listed == [{"type": "text", "text": whole}]
            assert plain == user.replace("foo bar", "foo baz")
            assert noted == "[系统提示:]Nova<{{VarFirst}}>|guide {{TarLastly}}|{{VarFile}}"

            (tmp_path / "dailynote/公共/2026-01-02.txt").write_text("new", encoding="utf-8")
            (tmp_path / "Agent/nova.txt").write_text("edited", encoding="utf-8")
            (live,) = await sent(server, up, {"role": "system", "content": "{{公共日记本}}|{{Nova}}"})
            assert live == "$& {{VarFirst}} {{Nova}}\n\n---\n\nnew|edited"

    run(main())


def test_dates_are_those_of_the_report_zone_and_tools_those_of_the_installation(tmp_path: Path) -> None:
    async def main() -> None:
        command = {"command": "say", "description": "Repeats.", "example": "E"}
        write_plugin(tmp_path, "Echo", ECHO, displayName="回声", capabilities={"invocationCommands": [command]})
        async with (
            ScriptedUpstream(lambda _: say("ok")) as up,
            running(tmp_path, up.base_url, config=CONFIG) as server,
        ):
            now = server.services.config.report_zone
            assert str(now) == "Pacific/Kiritimati"
            text = "{{Date}}|{{Today}}|{{Festival}}|{{VCPEcho}}|{{VCPAllTools}}"
            before = _today(server)
            (got,) = await sent(server, up, {"role": "system", "content": text})
            assert got.startswith((before, _today(server)))  # midnight may have passed
            described = "- 回声 (Echo) - 命令: say:\n    Repeats.\n  调用示例:\n    E"
            assert f"|{described}|" in got
            assert f"\n\n---\n\n{described}\n\n---\n\n" in got or f"|{described}\n\n---\n\n" in got
            assert "(SciCalculator)" in got
            assert "(DailyNoteWrite)" not in got  # it has no described command

    run(main())


def _today(server: Running) -> str:
    now = datetime.now(server.services.config.report_zone)
    return f"{now.year}/{now.month}/{now.day}|星期{'一二三四五六日'[now.weekday()]}|{festival(now.date())}|"


@pytest.mark.parametrize(
    ("setting", "role", "text", "expected"),
    [
        ("ExpandAgentsInAllRoles=true", "user", "{{Nova}}", "Nova<{{VarFirst}}>"),
        ("ResolveVariablesInAnyOrder=true", "system", "{{TarLastly}}{{VarBack}}", "lastlylastly"),
        ("DiaryMaxChars=5", "system", "{{公共日记本}}", "Nova}}"[1:]),
    ],
)
def test_each_setting_of_the_prompt_reaches_the_engine(
    tmp_path: Path, setting: str, role: str, text: str, expected: str
) -> None:
    async def main() -> None:
        installation(tmp_path)
        config = [*CONFIG, setting]
        async with ScriptedUpstream([say("ok")]) as up, running(tmp_path, up.base_url, config=config) as server:
            (got,) = await sent(server, up, {"role": role, "content": text})
            assert got.endswith(expected)
            assert (got == expected) is ("Diary" not in setting)

    run(main())
