from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.mcp.groups.file import MAX_FILE_BYTES, MAX_GROUPS, MAX_PATTERNS, DeclaredGroup, GroupFile, GroupFileError
from app.mcp.groups.file import read_groups as read


def groups(value: Any) -> tuple[tuple[DeclaredGroup, ...], list[str]]:
    table, problems = read(json.dumps({"groups": value}).encode())
    return table, [str(problem) for problem in problems]


def test_groups_come_in_the_order_of_the_file() -> None:
    table, problems = groups(
        {"z": {"description": "Last things", "tools": ["A", "b.*"]}, "a": {"tools": "C"}, "组 1": {"description": "d"}}
    )
    assert table == (
        DeclaredGroup("z", "Last things", ("A", "b.*")),
        DeclaredGroup("a", "", ("C",)),
        DeclaredGroup("组 1", "d", ()),
    )
    assert problems == []


def test_comments_commas_and_a_mark_are_passed_over_with_their_line() -> None:  # D73, P89
    text = '\ufeff{\n // mine\n "groups": {"a": {"tools": ["x",]},},\n "other": 1\n}'
    table, problems = read(text.encode())
    assert table == (DeclaredGroup("a", "", ("x",)),)
    assert [(problem.line, problem.reason.partition(" / ")[2]) for problem in problems] == [
        (1, "is no JSON and passed over: a byte-order mark"),
        (2, "is no JSON and passed over: a comment"),
        (3, "is no JSON and passed over: a trailing comma"),
        (3, "is no JSON and passed over: a trailing comma"),
        (4, "is not known and ignored"),
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is empty"),
        (" a", "white space"),
        ("a\nb", "control characters"),
        ("a\u202eb", "nobody sees"),
        ("a\x00", "control characters"),
        ("{a}", "braces"),
        ("a「末」", "「 or 」"),
        ("a" * 101, "more than 100"),
    ],
)
def test_a_name_that_no_prompt_can_hold_is_refused_with_the_reason(name: str, reason: str) -> None:
    table, problems = groups({name: {"description": "bad"}, "good": {"description": "d"}})
    assert [group.name for group in table] == ["good"]
    assert len(problems) == 1
    assert reason in problems[0]
    assert "\n" not in problems[0]
    assert "\u202e" not in problems[0]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (7, None),
        ([], None),
        (None, None),
        ({"description": 7, "tools": ["x"]}, DeclaredGroup("g", "", ("x",))),
        ({"description": "d", "tools": 7}, DeclaredGroup("g", "d")),
        ({"description": "d", "tools": {"x": 1}}, DeclaredGroup("g", "d")),
        ({"description": "d", "tools": ["x", None, 7, "", "y" * 401]}, DeclaredGroup("g", "d", ("x",))),
        ({"description": "d", "tolls": ["x"]}, DeclaredGroup("g", "d")),
        ({"description": "d" * 3000}, DeclaredGroup("g", "d" * 2000)),
    ],
)
def test_a_bad_entry_loses_only_itself(entry: Any, expected: DeclaredGroup | None) -> None:  # D73
    table, problems = groups({"g": entry, "other": {"tools": ["z"]}})
    assert table == (*(() if expected is None else (expected,)), DeclaredGroup("other", "", ("z",)))
    assert problems
    assert all("g" in problem for problem in problems)


def test_there_are_limits_for_groups_and_patterns() -> None:
    table, problems = groups({f"g{number}": {"tools": ["x", "y", "z"]} for number in range(MAX_GROUPS + 10)})
    assert len(table) == MAX_GROUPS
    assert sum(len(group.tools) for group in table) == MAX_PATTERNS
    assert len(problems) == 100


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b'{"groups": {}', 1, "is no JSON"),
        (b"{\n\n oops", 3, "is no JSON"),
        (b'{"groups":\n "\xff"}', 2, "UTF-8"),
        (b"[]", None, "JSON object"),
        (b"{}", None, "groups"),
        (b'{"groups": []}', None, "groups"),
        (b'{"groups": ' + b"[" * 100_000, None, "JSON"),
        (b"", 1, "is no JSON"),
    ],
)
def test_what_is_of_no_use_says_why(data: bytes, line: int | None, reason: str) -> None:
    with pytest.raises(GroupFileError) as raised:
        read(data)
    assert raised.value.line == line
    assert reason in raised.value.message


class Now:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 10
        return self.time


def test_the_file_is_read_again_when_it_is_another_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = GroupFile(tmp_path, Now())
    path = tmp_path / "tool_groups.json"
    assert file.table() == ()
    path.write_text('{"groups": {"a": {"description": "1"}}}', "utf-8")
    first = file.table()
    assert first == (DeclaredGroup("a", "1"),)
    assert file.table() is first
    other = tmp_path / "other.json"
    other.write_text('{"groups": {"b": {"description": "2"}}}', "utf-8")
    path.unlink()
    path.symlink_to(other)  # P93: a link in place of a file
    assert file.table() == (DeclaredGroup("b", "2"),)
    other.write_text('{"groups": {"b": ', "utf-8")
    assert file.table() == (DeclaredGroup("b", "2"),)  # P89: half-written, the last good one holds
    assert "the groups stay as they were" in caplog.text
    other.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    assert file.table() == (DeclaredGroup("b", "2"),)
    path.unlink()
    assert file.table() == ()


def test_a_folder_of_that_name_is_no_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "tool_groups.json").mkdir()
    assert GroupFile(tmp_path, Now()).table() == ()
    assert "the groups stay as they were" in caplog.text
