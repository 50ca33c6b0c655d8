"""Findings about ``notebook_permissions.json`` (memory.md 11.23)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.home.checks.findings import Topic
from app.memory.diaries.permissions import PERMISSIONS_FILE
from tests.home.checks.looked_at import about, looked_at, told
from tests.home.installations import write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, []),
        ('{"公共": "shared", /* yes */ "default": "read-only",}', []),
        ('{"小可": "private"}', [("note", PERMISSIONS_FILE, "小可")]),
        ('{"公共": "secret"}', [("error", PERMISSIONS_FILE, "")]),
        ("{", [("error", PERMISSIONS_FILE, "")]),
        ("[" * 100_000, [("error", PERMISSIONS_FILE, "")]),
        (" " * 2_000_000, [("error", PERMISSIONS_FILE, "")]),
    ],
)
def test_faults_are_told(tmp_path: Path, text: str | None, expected: list[tuple[str, str, str]]) -> None:
    (tmp_path / "dailynote" / "公共").mkdir(parents=True)
    if text is not None:
        write(tmp_path, PERMISSIONS_FILE, text)
    found = [one for one in about(looked_at(tmp_path), Topic.FILES) if one.file == PERMISSIONS_FILE]
    assert told(found) == expected
