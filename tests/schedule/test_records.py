"""What came of scheduled calls, as people see it (spec 7.2): lists, hostile files, names that lead away (B3)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from app.errors import NotFoundError
from app.schedule.folder import TaskFolder
from app.schedule.records import LISTED_BYTES, SHOWN_CHARS, delete_record, record_text, records


def folder_in(home: Path) -> TaskFolder:
    folder = TaskFolder(home)
    folder.make()
    return folder


def write(place: Path, name: str, content: bytes | dict[str, object], age: int = 0) -> None:
    path = place / f"{name}.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    os.utime(path, (1_764_200_000 - age,) * 2)


def test_results_and_failures_are_one_list_the_last_first(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    write(folder.results, "good", {"tool_name": "T", "status": "success", "requestor": "r"}, age=10)
    write(folder.results, "bad", {"tool_name": "T", "status": "error"}, age=5)
    write(folder.failed, "bad", {"tool_call": {"tool_name": "T"}, "failure": {"reason": "why"}}, age=5)
    write(folder.failed, "lost", {"tool_call": {"tool_name": "U"}, "failure": {"reason": "why"}})
    total, found = records(folder, 0, 10)
    assert total == 3
    assert [(one.name, one.failed, one.tool, one.reason) for one in found] == [
        ("lost", True, "U", "why"),
        ("bad", True, "T", ""),
        ("good", False, "T", ""),
    ]
    assert [one.name for one in records(folder, 1, 1)[1]] == ["bad"]
    assert records(folder, 9, 5) == (3, [])


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{", b'{"tool_name": [1], "failure": "x", "tool_call": 7}'])
def test_files_that_hold_no_record_are_listed_and_shown_as_they_are(tmp_path: Path, content: bytes) -> None:
    folder = folder_in(tmp_path)
    write(folder.results, "odd", content)
    assert [one.name for one in records(folder, 0, 5)[1]] == ["odd"]
    record_text(folder, "odd")


def test_large_records_are_listed_by_name_and_shown_in_part(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    write(folder.results, "large", {"tool_name": "T", "result": "x" * (LISTED_BYTES + SHOWN_CHARS)})
    assert records(folder, 0, 5)[1][0].tool == ""
    assert len(record_text(folder, "large")) == SHOWN_CHARS + 1


def test_links_and_hidden_files_are_no_records(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    (tmp_path / "secret.json").write_text("{}")
    (folder.results / "link.json").symlink_to(tmp_path / "secret.json")
    write(folder.results, ".hidden", {})
    assert records(folder, 0, 5) == (0, [])


@pytest.mark.parametrize("name", ["../../config", "..", ".x", "a/b", "a\\b", "a\0", "", "x" * 300, "missing"])
def test_names_that_are_none_lead_nowhere(tmp_path: Path, name: str) -> None:
    folder = folder_in(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(NotFoundError):
        record_text(folder, name)
    with pytest.raises(NotFoundError):
        delete_record(folder, name)
    assert (tmp_path / "config.json").exists()


def test_a_record_goes_with_both_its_files(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    write(folder.results, "a", {})
    write(folder.failed, "a", {})
    delete_record(folder, "a")
    assert records(folder, 0, 5) == (0, [])
