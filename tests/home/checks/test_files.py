"""Findings about the other files of an installation (spec 0.2, 7.1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.home.checks.findings import Level, Topic
from tests.home.checks.looked_at import about, looked_at, told
from tests.home.installations import direct, write, write_manifest


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("ModelRedirect.json", '{"//": 1, "a": "b"}', []),
        ("ModelRedirect.json", '\ufeff{"a": ""}', [("error", "", "a")]),
        ("ModelRedirect.json", "[]", [("error", "", "")]),
        ("ModelRedirect.json", '{\n"a" "b"}', [("error", ":2:5", "")]),
        ("preprocessor_order.json", '["SciCalculator"]', []),
        ("preprocessor_order.json", '["NoSuch", 7]', [("error", "", ""), ("warning", "", "NoSuch")]),
        ("preprocessor_order.json", '{"a": 1}', [("error", "", "")]),
        ("ip_blacklist.json", "[]", []),
        ("ip_blacklist.json", '["x", 5]', [("warning", "", "x"), ("warning", "", "5"), ("note", "", "")]),
        ("ip_blacklist.json", '["127.0.0.1"]', [("note", "", "127.0.0.1"), ("note", "", "")]),
        ("ip_blacklist.json", "nonsense", [("error", ":1:1", "")]),
    ],
)
def test_files_with_faults_are_told(tmp_path: Path, name: str, text: str, expected: list[tuple[str, str, str]]) -> None:
    write(tmp_path, name, text)
    found = told(about(looked_at(tmp_path), Topic.FILES))
    assert found == [(level, f"{name}{place}", subject) for level, place, subject in expected]


def test_a_preprocessor_that_does_not_run_here_is_good_to_know(tmp_path: Path) -> None:
    write_manifest(tmp_path, "RAGDiaryPlugin", pluginType="hybridservice", **direct("x.js"))
    write(tmp_path, "preprocessor_order.json", '["RAGDiaryPlugin"]')
    found = about(looked_at(tmp_path), Topic.FILES)
    assert told(found) == [("note", "preprocessor_order.json", "RAGDiaryPlugin")]


def test_a_task_may_name_a_command_by_the_name_that_it_brings(tmp_path: Path) -> None:
    command = {"commandIdentifier": "Read", "toolName": "novel_read", "description": "d"}
    entry = {"command": "python main.py", "interpreter": "server"}
    folder = write_manifest(tmp_path, "Novel", entryPoint=entry, capabilities={"invocationCommands": [command]})
    write(folder, "main.py", "")
    for number, name in enumerate(("novel_read", "Novel.Read", "Novel", "novel_write")):
        task = TASK | {"tool_call": {"tool_name": name, "arguments": {}}}
        write(tmp_path, f"VCPTimedContacts/{number}.json", json.dumps(task))
    found = about(looked_at(tmp_path), Topic.FILES)
    assert [finding.subject for finding in found if finding.level is Level.WARNING] == ["novel_write"]


TASK = {
    "taskId": "t",
    "scheduledLocalTime": "2099-01-05T08:00:00+08:00",
    "tool_call": {"tool_name": "SciCalculator", "arguments": {}},
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"taskId": ""}, [("error", "taskId")]),
        ({"taskId": 7}, [("error", "taskId")]),
        ({"scheduledLocalTime": "soon"}, [("warning", "scheduledLocalTime")]),
        ({"scheduledLocalTime": None}, [("warning", "scheduledLocalTime")]),
        ({"tool_call": None}, [("error", "tool_call")]),
        ({"tool_call": {"tool_name": "AgentAssistant"}}, [("warning", "AgentAssistant")]),
    ],
)
def test_tasks_that_will_not_run_are_told(
    tmp_path: Path, change: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    write(tmp_path, "VCPTimedContacts/t.json", json.dumps({**TASK, **change}))
    found = told(about(looked_at(tmp_path), Topic.FILES))
    assert found == [(level, "VCPTimedContacts/t.json", subject) for level, subject in expected]


def test_half_written_and_foreign_task_files_are_told(tmp_path: Path) -> None:
    write(tmp_path, "VCPTimedContacts/a.json", '{"taskId": "a", ')
    write(tmp_path, "VCPTimedContacts/b.json", "[]")
    (tmp_path / "VCPTimedContacts" / "c.json").mkdir()
    (tmp_path / "VCPTimedContacts" / "d.json").write_bytes(b"\xff")
    write(tmp_path, "VCPTimedContacts/.e.json", "half")
    write(tmp_path, "VCPTimedContacts/readme.md", "text")
    found = about(looked_at(tmp_path), Topic.FILES)
    assert [(finding.level, finding.file[-6:]) for finding in found] == [
        (Level.ERROR, f"{name}.json"[-6:]) for name in "abcd"
    ]
