"""``notebook_permissions.json`` (memory.md 11.23): private, shared, read-only by agent; open without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.memory.diaries.permissions import PERMISSIONS_FILE, NotPermittedError, read_permissions

RULES = """{
  // comments are allowed
  "小克": "private", "小克的知识": "private", "公共": "shared", "制度": "read-only",
  "项目": {"read": ["*"], "write": ["Nova", "小克"]},
  "default": {"read": "*", "write": ["Nova"]},
}"""


def test_without_the_file_everything_is_open(tmp_path: Path) -> None:
    rules = read_permissions(tmp_path)
    assert rules.may_read("", "小克") and rules.may_write("x", "小克")


@pytest.mark.parametrize(
    ("agent", "notebook", "reads", "writes"),
    [
        ("小克", "小克", True, True),
        ("小克", "小克的知识", True, True),
        ("Nova", "小克", False, False),
        ("", "小克", False, False),
        ("x", "公共", True, True),
        ("x", "制度", True, False),
        ("Nova", "项目", True, True),
        ("x", "项目", True, False),
        ("Nova", "别的", True, True),
        ("x", "别的", True, False),
    ],
)
def test_rules_hold_for_the_agents_they_name(
    tmp_path: Path, agent: str, notebook: str, reads: bool, writes: bool
) -> None:
    (tmp_path / PERMISSIONS_FILE).write_text(RULES, "utf-8")
    rules = read_permissions(tmp_path)
    assert (rules.may_read(agent, notebook), rules.may_write(agent, notebook)) == (reads, writes)
    if not writes:
        with pytest.raises(NotPermittedError):
            rules.check_write(agent, notebook)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": "no such word"}', '{"a": {"write": [1]}}', "\udcff", "[" * 100_000])
def test_a_mistake_in_the_file_costs_nobody_a_note_and_is_logged(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / PERMISSIONS_FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_permissions(tmp_path).may_write("x", "小克")
    assert PERMISSIONS_FILE in caplog.text
