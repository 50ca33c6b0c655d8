"""What a due task becomes: arguments as given, the time told to agents, the meta object (7.1, 7.2, S5, D39)."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.extend import LOCAL, ToolCommand, ToolSpec
from app.plugins.stdio import stdin_bytes
from app.schedule.call import call_of
from app.schedule.task import Task

ZONE = ZoneInfo("Asia/Shanghai")
ECHO = ToolSpec("Echo", LOCAL, "Echo")
META = {"taskId": "t", "scheduledLocalTime": "2026-01-05T08:00:00+08:00", "requestor": "me"}


def task(tool: str = "Echo", **arguments: Any) -> Task:
    return Task("t", 1_767_571_200, tool, arguments, "me")


def test_an_agent_is_told_when_it_was_to_be_called() -> None:  # S5
    call = call_of(task("AgentAssistant", agent_name="Nova", prompt="hello"), None, "c", ZONE)
    assert call.arguments == {"agent_name": "Nova", "prompt": "[预定通讯: 2026-01-05 08:00:00] hello"}


@pytest.mark.parametrize("prompt", [None, 5, ["x"]])
def test_a_prompt_that_is_no_text_stays_as_it_is(prompt: Any) -> None:
    assert call_of(task("AgentAssistant", prompt=prompt), None, "c", ZONE).arguments["prompt"] == prompt


def test_other_tools_keep_their_prompt() -> None:
    assert call_of(task(prompt="hello"), None, "c", ZONE).arguments == {"prompt": "hello"}


def test_arguments_pass_as_given_but_for_the_time() -> None:  # D39
    given = {"n": 5, "flag": True, "nothing": None, "list": [1, {"a": "b"}], "text": "5"}
    call = call_of(task(**given, timely_contact="2026-01-05-08:00"), ECHO, "c", ZONE)
    assert call.arguments == {**given, "__vcp_timed_call": META}
    assert stdin_bytes(ECHO, call, as_given=True).decode() == (
        '{"n":5,"flag":true,"nothing":null,"list":[1,{"a":"b"}],"text":"5","__vcp_timed_call":{"taskId":"t",'
        '"scheduledLocalTime":"2026-01-05T08:00:00+08:00","requestor":"me"}}'
    )


@pytest.mark.parametrize(
    ("schemas", "takes"),
    [
        ([], True),
        ([None, None], True),
        ([{"properties": {"a": {}}}], False),
        ([{"properties": {"a": {}}, "additionalProperties": False}], False),
        ([{"properties": {"a": {}}, "additionalProperties": {"type": "string"}}], False),
        ([{"properties": {"a": {}}, "additionalProperties": True}], True),
        ([{"properties": {"a": {}, "__vcp_timed_call": {}}, "additionalProperties": False}], True),
        ([None, {"properties": {}}], False),
    ],
)
def test_only_tools_that_do_not_declare_all_their_arguments_get_the_meta_object(
    schemas: list[Any], takes: bool
) -> None:
    commands = tuple(ToolCommand(str(n), str(n), "", parameters=schema) for n, schema in enumerate(schemas))
    call = call_of(task(), ToolSpec("Echo", LOCAL, "Echo", commands=commands), "c", ZONE)
    assert call.arguments == ({"__vcp_timed_call": META} if takes else {})


@pytest.mark.parametrize(("maid", "name"), [("Nova", "Nova"), ("", None), (5, None), (None, None)])
def test_the_callers_name_is_that_of_the_arguments(maid: Any, name: str | None) -> None:
    call = call_of(task(maid=maid), ECHO, "c", ZONE)
    assert call.maid == name
    assert call.arguments["maid"] == maid
