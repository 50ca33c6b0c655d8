"""The agents of AgentAssistant for administrators (vcp-core 8.2; B44): shape, examples, conflicts, bad bodies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.config import dotenv
from tests.server import run
from tests.web.admin.writing import Writer

PATH = "/admin_api/agent-assistant/config"
FILE = Path("Plugin", "AgentAssistant", "config.env")


def agent(**changed: Any) -> dict[str, Any]:
    return {
        "baseName": "NOVA",
        "chineseName": "诺娃",
        "modelId": "m",
        "systemPrompt": 'You are "{{MaidName}}".\nAnswer.',
        "maxOutputTokens": 4000,
        "temperature": 0.5,
        "description": "helps",
    } | changed


def test_without_a_file_the_example_is_shown_and_then_the_defaults(tmp_path: Path) -> None:
    admin = Writer(tmp_path)

    async def main() -> None:
        defaults = {"maxHistoryRounds": 7, "contextTtlHours": 24, "globalSystemPrompt": "", "agents": []}
        assert (await admin.get(PATH)).json == defaults
        admin.write(f"{FILE}.example", "AGENT_A_MODEL_ID=m\nAGENT_A_CHINESE_NAME=甲\n")
        shown = (await admin.get(PATH)).json["agents"]
        assert [(one["baseName"], one["chineseName"], one["maxOutputTokens"]) for one in shown] == [("A", "甲", 40000)]

    run(main())


def test_what_is_saved_is_what_is_shown_and_what_agents_read(tmp_path: Path) -> None:
    """8.2: other lines kept, incomplete entries dropped, base names derived."""
    admin = Writer(tmp_path)
    admin.write(str(FILE), "# mine\nPLUGIN_COMMUNICATION_TIMEOUT=1000\nAGENT_OLD_MODEL_ID=x\n")

    async def main() -> None:
        read = (await admin.get(PATH)).headers["etag"].strip('"')
        body = {
            "maxHistoryRounds": "9",
            "contextTtlHours": 1.5,
            "globalSystemPrompt": "大家好",
            "agents": [agent(), agent(baseName="", chineseName="小克"), agent(modelId=" "), agent(chineseName="")],
        }
        saved = await admin.post(PATH, {**body, "expected": read})
        assert saved.status == 200, saved.body
        shown = (await admin.get(PATH)).json
        assert shown == {
            "maxHistoryRounds": 9,
            "contextTtlHours": 1.5,
            "globalSystemPrompt": "大家好",
            "agents": [agent(), agent(baseName="AGENT", chineseName="小克")],
        }
        values = dotenv.parse_values((tmp_path / FILE).read_text("utf-8"))
        assert values["AGENT_NOVA_SYSTEM_PROMPT"] == 'You are "{{MaidName}}".\nAnswer.'
        assert values["PLUGIN_COMMUNICATION_TIMEOUT"] == "1000"
        assert "AGENT_OLD_MODEL_ID" not in values
        assert (tmp_path / FILE).stat().st_mode & 0o077 == 0
        late = await admin.post(PATH, {**body, "expected": read})
        assert (late.status, "AGENT_NOVA_MODEL_ID" in late.json["content"]) == (409, True)

    run(main())


def test_bad_bodies_change_nothing(tmp_path: Path) -> None:
    admin = Writer(tmp_path)
    admin.write(str(FILE), "A='open\n")

    async def main() -> None:
        bad: Any
        for bad in (
            {},
            {"agents": {}},
            {"agents": [{}] * 501},
            [],
            b"{",
            {"agents": [], "globalSystemPrompt": 3},
            {"agents": [agent(chineseName=["x"])]},
            {"agents": [agent(systemPrompt="\0")]},
            {"agents": [agent(systemPrompt="say \"x'")]},
        ):
            answer = await admin.post(PATH, bad)
            assert answer.status == 400, (bad, answer.body)
        assert (tmp_path / FILE).read_text() == "A='open\n"

    run(main())


def test_a_file_in_another_encoding_is_told_and_not_destroyed(tmp_path: Path) -> None:
    admin = Writer(tmp_path)
    data = "# 说明\nAGENT_A_MODEL_ID=m\nAGENT_A_CHINESE_NAME=甲\n".encode("gb18030")
    admin.write(str(FILE), data)

    async def main() -> None:
        assert (await admin.get(PATH)).status == 400
        answer = await admin.post(PATH, {"agents": [agent()]})
        assert (answer.status, "not UTF-8" in answer.json["error"]) == (400, True)
        assert (tmp_path / FILE).read_bytes() == data

    run(main())
