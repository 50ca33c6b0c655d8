"""Findings about ``tool_groups.json`` and the placeholders of groups (D73, P89)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.home.checks.findings import Topic
from tests.home.checks.looked_at import about, looked_at, told
from tests.home.installations import write
from tests.server import write_plugin

NAME = "tool_groups.json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"groups": {"a": {"description": "d", "tools": ["SciCalculator", "Sci*", "x.y", "mcp:x", "n#T"]}}}', []),
        ('{"groups": {"a": {"tools": [\n"SciCalculater"]}}}', [("note", ":2", "SciCalculater")]),
        (
            '{"groups": {\n"a\\u0000": {}, // bad\n}}',
            [("warning", ":2", ""), ("warning", ":2", ""), ("warning", ":2", "a\\x00")],
        ),
        ('{"groups": {"a": 7},\n"colour": 1}', [("warning", ":2", "colour"), ("warning", ":1", "a")]),
        ('{\n"a" "b"}', [("error", ":2", "")]),
        ("{}", [("error", "", "")]),
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


def test_placeholders_of_groups_that_there_are_not_are_told(tmp_path: Path) -> None:
    write(tmp_path, NAME, '{"groups": {"disk": {"description": "d"}}}')
    write_plugin(tmp_path, "Sums", "", groups=["maths"])
    text = "{{VCPToolGroups}} {{VCPToolGroup::disk}} {{VCPToolGroup::maths}} {{VCPToolGroup::none}}"
    found = told(about(looked_at(tmp_path, f"TarX={text}"), Topic.PROMPTS))
    assert [(level, subject) for level, _, subject in found] == [("warning", "{{VCPToolGroup::none}}")]
