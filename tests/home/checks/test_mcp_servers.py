"""Findings about ``mcp_servers.json`` (P84, P89, P95)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.home.checks.findings import Topic
from tests.home.checks.looked_at import about, looked_at, told
from tests.home.installations import write

NAME = "mcp_servers.json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"mcpServers": {"a": {"command": "sh"}}}', []),
        ('{"mcpServers": {\n"a": {"command": "sh",\n"colour": 1}}}', [("warning", ":3", "a.colour")]),
        ('{"mcpServers": {\n"a": {"url": 5}}}', [("error", ":2", "a.url")]),
        ('{"mcpServers": {"a": {"command": "sh", "args": ["${NOT_SET}"]}}}', [("warning", ":1", "a.args")]),
        ('{"mcpServers": {"a": {"command": "no-such-program"}}}', [("warning", "", "a")]),
        ('{"mcpServers": {"a": {"command": "no-such-program", "disabled": true}}}', []),
        ('{"mcpServers": {"a": {"command": "sh", "cwd": "nowhere"}}}', [("warning", "", "a")]),
        ('{"mcpServers": {"a": {"url": "https://example.org/mcp"}},}', [("warning", ":1", "")]),
        ('{\n"a" "b"}', [("error", ":2", "")]),
        ("5", [("error", "", "")]),
        ("x" * 2_000_000, [("error", "", "")]),
    ],
)
def test_faults_are_told_with_their_line(tmp_path: Path, text: str, expected: list[tuple[str, str, str]]) -> None:
    write(tmp_path, NAME, text)
    found = told(about(looked_at(tmp_path), Topic.FILES))
    assert sorted(found) == sorted((level, f"{NAME}{place}", subject) for level, place, subject in expected)


def test_a_variable_of_the_configuration_is_known(tmp_path: Path) -> None:
    write(tmp_path, NAME, '{"mcpServers": {"a": {"url": "https://example.org/", "headers": {"K": "${MyToken}"}}}}')
    report = looked_at(tmp_path, "MyToken=secret-value")
    assert [found for found in about(report, Topic.FILES) if found.file == NAME] == []
    assert "secret-value" not in str(report)
