"""Which notebook and which note is meant, and nothing outside (memory.md 1.1, 10.5 G12; B3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.memory.diaries.notebooks import (
    NoSuchNoteError,
    PathRefusedError,
    check_name,
    existing_notebook,
    find_note,
    note_files,
    note_path,
    notebooks,
    resolve_notebook,
    walk_notes,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "dailynote"
    for name in (
        "公共/a.txt",
        "公共/B.MD",
        "公共/.hidden.txt",
        "公共/c.json",
        "小克/sub/d.txt",
        "日记本/e.txt",
        ".x/f.txt",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", "utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("secret", "utf-8")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "公共/link.txt").symlink_to(tmp_path / "outside/secret.txt")
    (root / "小克/up").symlink_to(tmp_path / "outside")
    return root


def test_links_and_hidden_folders_are_no_notebooks_and_links_no_notes(root: Path) -> None:
    assert notebooks(root) == ["公共", "小克", "日记本"]
    assert [entry.name for entry in note_files(root / "公共")] == ["B.MD", "a.txt"]
    assert [path.relative_to(root).as_posix() for path in walk_notes(root)] == [
        "公共/B.MD",
        "公共/a.txt",
        "小克/sub/d.txt",
        "日记本/e.txt",
    ]
    assert notebooks(root / "nothing") == []


@pytest.mark.parametrize(
    ("name", "notebook"),
    [
        ("公共", "公共"),
        ("公共日记本", "公共"),
        (" 公共 日记本 ", "公共"),
        ("日记本", "日记本"),
        ("小", "小"),
        ("小克的知识", "小克的知识"),
        ("新的日记本", "新的"),
        ("../../etc", "etc"),
        ("", "Untitled"),
        ("a/b:c", "abc"),
        ("..x..", "x"),
    ],
)
def test_a_name_means_the_notebook_that_people_mean(root: Path, name: str, notebook: str) -> None:
    """1.1; G12; names that contain each other stay different notebooks."""
    assert resolve_notebook(root, name) == notebook


def test_case_and_width_make_no_other_notebook(root: Path) -> None:
    (root / "Nova").mkdir()
    assert resolve_notebook(root, "ｎｏｖａ") == "Nova"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0b", "a\nb", ".hidden", "字" * 86])
def test_names_that_could_be_anything_else_are_refused(root: Path, name: str) -> None:
    with pytest.raises(PathRefusedError):
        check_name(name)
    with pytest.raises(PathRefusedError):
        existing_notebook(root, name)


def test_links_are_refused_by_name(root: Path) -> None:
    with pytest.raises(PathRefusedError):
        existing_notebook(root, "link")
    with pytest.raises(PathRefusedError):
        note_path(root / "公共", "link.txt")
    with pytest.raises(NoSuchNoteError):
        existing_notebook(root, "nowhere")


@pytest.mark.parametrize(
    "address",
    [
        "公共/../小克/x.txt",
        "../outside/secret.txt",
        "link/secret.txt",
        "小克/up/secret.txt",
        "公共/link.txt",
        "/etc/passwd",
        "a.txt",
        "公共/c.json",
        "公共/.hidden.txt",
        "公共/gone.txt",
        "公共",
        "",
        "公共/\x00.txt",
    ],
)
def test_no_address_leads_out_of_the_notebooks(root: Path, address: str) -> None:
    with pytest.raises((PathRefusedError, NoSuchNoteError)):
        find_note(root, address)


@pytest.mark.parametrize("address", ["公共/a.txt", "dailynote/公共/a.txt", "公共\\a.txt", " 公共/a.txt "])
def test_notes_are_found_by_their_address(root: Path, address: str) -> None:
    assert find_note(root, address) == root / "公共" / "a.txt"
    assert find_note(root, "小克/sub/d.txt").name == "d.txt"


def test_a_pipe_is_no_note(root: Path) -> None:
    os.mkfifo(root / "公共/pipe.txt")
    with pytest.raises(PathRefusedError):
        find_note(root, "公共/pipe.txt")
    assert "pipe.txt" not in [entry.name for entry in note_files(root / "公共")]
