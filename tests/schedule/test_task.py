"""Task files (spec 7.1) and task ids (B3)."""

from __future__ import annotations

import json
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import BadRequestError
from app.schedule.task import MAX_ID_BYTES, Task, check_id, json_bytes, read_task, task_bytes

ZONE = ZoneInfo("Asia/Shanghai")
EXAMPLE = {
    "taskId": "task-1767571200000-uuid",
    "scheduledLocalTime": "2026-01-05T08:00:00+08:00",
    "tool_call": {"tool_name": "AgentAssistant", "arguments": {"agent_name": "Nova", "prompt": "…"}},
    "requestor": "Plugin: AgentAssistant",
}
TASK = Task(
    "task-1767571200000-uuid",
    1_767_571_200,
    "AgentAssistant",
    {"agent_name": "Nova", "prompt": "…"},
    "Plugin: AgentAssistant",
)


def written(**changed: Any) -> bytes:
    fields = {name: value for name, value in {**EXAMPLE, **changed}.items() if value is not ...}
    return json.dumps(fields).encode()


def test_the_file_of_the_specification_is_read_and_written() -> None:
    assert read_task(written(), ZONE) == TASK
    text = task_bytes(TASK, ZONE).decode()
    assert json.loads(text) == EXAMPLE
    assert text.startswith('{\n  "taskId": "task-1767571200000-uuid",\n  "scheduledLocalTime"')
    assert "…" in text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (written()[:-10], "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"a": NaN}', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"9" * 10_000, "."),
        (written(taskId=...), "taskId is missing"),
        (written(taskId=""), "taskId is missing"),
        (written(taskId=None), "taskId is missing"),
        (written(taskId=["x"]), "taskId is missing"),
        (written(scheduledLocalTime=...), "scheduledLocalTime is missing"),
        (written(scheduledLocalTime=None), "scheduledLocalTime is missing"),
        (written(scheduledLocalTime="soon"), "scheduledLocalTime cannot be read"),
        (written(scheduledLocalTime="2026-02-30T08:00:00"), "scheduledLocalTime cannot be read"),
        (written(scheduledLocalTime={}), "scheduledLocalTime cannot be read"),
    ],
)
def test_a_file_that_holds_no_task_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_task(data, ZONE)


def test_a_byte_order_mark_further_fields_and_numbers_as_ids_are_no_fault() -> None:
    task = read_task(b"\xef\xbb\xbf" + written(taskId=7, more=[1], requestor=None), ZONE)
    assert (task.id, task.tool, task.requestor) == ("7", "AgentAssistant", "")


@pytest.mark.parametrize(
    "call",
    [..., None, "Echo", [], {}, {"tool_name": ""}, {"tool_name": 3}, {"tool_name": "Echo", "arguments": "x"}],
)
def test_a_task_without_a_complete_tool_call_is_one_that_names_no_tool(call: Any) -> None:
    assert read_task(written(tool_call=call), ZONE).tool == ""


def test_a_tool_call_without_arguments_has_none() -> None:
    task = read_task(written(tool_call={"tool_name": " Echo "}), ZONE)
    assert (task.tool, task.arguments) == ("Echo", {})


@pytest.mark.parametrize(("value", "count"), [(2, 2), (-1, 0), ("x", 0), (None, 0)])
def test_the_number_of_interrupted_runs_is_kept(value: Any, count: int) -> None:
    assert read_task(written(interrupted=value), ZONE).interrupted == count


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_arguments_come_back_as_they_were_written(arguments: dict[str, Any]) -> None:
    task = Task("t", 5, "Echo", arguments, "me")
    assert read_task(task_bytes(task, ZONE), ZONE) == task


def test_half_characters_are_written_as_escapes_and_what_is_no_json_is_refused() -> None:
    assert json.loads(json_bytes({"a": "\ud83d"})) == {"a": "\ud83d"}
    with pytest.raises(ValueError, match="no JSON"):
        json_bytes({"a": {1, 2}})


@pytest.mark.parametrize("good", ["task-1767571200000-uuid", "提醒 1", "a.json", "x" * MAX_ID_BYTES, 12])
def test_an_id_is_one_component_of_a_path(good: Any) -> None:
    assert check_id(good) == str(good)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        ".",
        "..",
        ".hidden",
        "../x",
        "a/b",
        "a\\b",
        "/etc/passwd",
        "a\0b",
        "a\nb",
        "\x1b[31m",
        " a",
        "a ",
        "x" * (MAX_ID_BYTES + 1),
        "务" * 43,
        "\ud83d",
        None,
        True,
        1.5,
        ["a"],
    ],
)
def test_an_id_that_could_leave_its_folder_or_forge_a_line_is_refused(bad: Any) -> None:
    with pytest.raises(BadRequestError, match="task_id"):
        check_id(bad)
