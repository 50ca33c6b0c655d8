"""AgentMessage as a child process (vcp-core 5.8, 9)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "Plugin" / "AgentMessage"


@pytest.mark.parametrize(
    ("arguments", "head"),
    [
        ({"message": "该休息了。\n 喝口水", "Maid": "小克"}, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d - 小克"),
        ({"message": "该休息了。\n 喝口水", "maid": "小\n克"}, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d - 小 克"),
        ({"message": "该休息了。\n 喝口水"}, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"),
    ],
)
def test_the_message_follows_a_line_that_says_when_and_who(run_plugin: Any, arguments: Any, head: str) -> None:
    answer = run_plugin("AgentMessage", arguments)
    first, _, rest = answer.json["result"].partition("\n")
    assert (answer.json["status"], answer.code, rest) == ("success", 0, "该休息了。\n 喝口水")
    assert re.fullmatch(head, first)


@pytest.mark.parametrize("arguments", [{}, {"message": "  "}, {"message": ["x"]}, [], "x", {"Maid": "小克"}])
def test_a_call_without_a_message_is_a_clear_error(run_plugin: Any, arguments: Any) -> None:
    answer = run_plugin("AgentMessage", arguments)
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "message" in answer.json["error"]


def test_input_that_is_no_json_is_a_clear_error(run_plugin: Any) -> None:
    assert run_plugin("AgentMessage", raw=b"{oops").json["status"] == "error"


def test_a_zone_that_is_none_gives_the_default_and_a_warning(run_plugin: Any) -> None:
    answer = run_plugin("AgentMessage", {"message": "x"}, DEFAULT_TIMEZONE="Mars/Base")
    assert answer.json["status"] == "success"
    assert "Mars/Base" in answer.stderr


def test_the_manifest_asks_for_a_push_to_the_user(run_plugin: Any) -> None:
    manifest = json.loads((PLUGIN / "plugin-manifest.json").read_text("utf-8"))
    assert manifest["webSocketPush"]["targetClientType"] == "UserNotification"
    assert manifest["communication"]["timeout"] == 10_000
