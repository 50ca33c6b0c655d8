"""Findings about ``toolApprovalConfig.json`` (spec 7.6, P89)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.home.checks.findings import Topic
from tests.home.checks.looked_at import about, looked_at, told
from tests.home.installations import write
from tests.server import write_plugin

NAME = "toolApprovalConfig.json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"enabled": true, "approvalList": ["SciCalculator", "SciCalculator:x::SilentReject"]}', []),
        ('{"enabled": false}', []),
        ('{"enabled": true,\n "approveAll": true, // all\n}', [("warning", ":2", ""), ("warning", ":2", "")]),
        ('{"enabled": true}', [("warning", "", "")]),
        ('{"enabled": true,\n "approvalList": ["FileOprator", "DailyNote", "gpu#X"]}', [("note", ":2", "FileOprator")]),
        ('{"enabled": true, "approvalList": ["File_Oprator:x::silentreject"]}', [("note", ":1", "File_Oprator:x")]),
        ('{"enabled": true, "approvalList": ["File\\u004fprator"]}', [("note", "", "fileoprator")]),
        ('{"enabled": false, "approvalList": ["FileOprator"]}', [("note", "", "")]),
        (
            '{"enabled": 1,\n "colour": 2}',
            [("warning", ":2", "colour"), ("warning", ":1", "enabled"), ("warning", "", "")],
        ),
        ('{"fuzzyToolMatching": true}', [("warning", ":1", "fuzzyToolMatching")]),
        ('{\n"a" "b"}', [("error", ":2", "")]),
        ('{"approvalList": 5}', [("error", "", "")]),
        ("", [("error", ":1", "")]),
        ("x" * 2_000_000, [("error", "", "")]),
    ],
)
def test_faults_are_told_with_their_line(tmp_path: Path, text: str, expected: list[tuple[str, str, str]]) -> None:
    write(tmp_path, NAME, text)
    found = told(about(looked_at(tmp_path), Topic.FILES))
    assert found == [(level, f"{NAME}{place}", subject) for level, place, subject in expected]


def test_something_that_is_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    assert told(about(looked_at(tmp_path), Topic.FILES)) == [("error", NAME, "")]


def test_without_the_file_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert about(looked_at(tmp_path), Topic.FILES) == []


def test_a_rule_about_a_command_that_nobody_declares_is_told(tmp_path: Path) -> None:
    """It would hold nothing, which nobody notices."""
    commands = [
        {"commandIdentifier": "Erase", "command": "DeleteFile", "toolName": "file_erase", "description": "d"},
        {"command": "ReadFile", "description": "r"},
    ]
    write_plugin(tmp_path, "Files", "", capabilities={"invocationCommands": commands})
    write_plugin(tmp_path, "Shell", "", capabilities={"invocationCommands": [{"command": "run", "description": "r"}]})
    good = [
        "Files:DeleteFile",
        "files:erase",
        "Files:file_erase",
        "file_erase",
        "Files.Erase",
        "Shell:rm -rf",
        "a#Files:x",
    ]
    write(tmp_path, NAME, json.dumps({"enabled": True, "approvalList": [*good, "Files:DeletFile::SilentReject"]}))
    assert told(about(looked_at(tmp_path), Topic.FILES)) == [("note", f"{NAME}:1", "Files:DeletFile")]
