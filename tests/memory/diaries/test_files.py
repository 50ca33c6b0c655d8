"""Diary files: whole or not at all, never overwritten, never outside (memory.md 1.2, 11.1; B3, B34)."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from app.memory.diaries import files
from app.memory.diaries.files import DiaryError, create_note, notebook_folder, replace_note

MOMENT = datetime(2025, 11, 27, 9, 5, 7)


def test_notes_of_the_same_second_are_numbered(tmp_path: Path) -> None:
    names = [create_note(tmp_path, "2025.11.27", MOMENT, "txt", f"note {number}").name for number in range(3)]
    stem = "2025-11-27-09_05_07"
    assert names == [f"{stem}.txt", f"{stem}_2.txt", f"{stem}_3.txt"]
    assert [(tmp_path / name).read_text("utf-8") for name in names] == ["note 0", "note 1", "note 2"]


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.parametrize("links", [True, False])
def test_many_writers_of_one_second_all_keep_their_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        refuse_links(monkeypatch)
    texts = [f"note {number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda text: create_note(tmp_path, "d", MOMENT, "txt", text), texts))
    assert [path.read_text("utf-8") for path in paths] == texts
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_another_error_of_linking_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="broken"):
        create_note(tmp_path, "d", MOMENT, "txt", "x")
    assert list(tmp_path.iterdir()) == []


def test_a_taken_name_that_is_a_dangling_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "d-09_05_07.txt").symlink_to(tmp_path / "gone")
    assert create_note(tmp_path, "d", MOMENT, "txt", "x").name == "d-09_05_07_2.txt"
    assert not (tmp_path / "gone").exists()


def test_a_note_is_replaced_only_while_it_says_what_was_written(tmp_path: Path) -> None:
    path = create_note(tmp_path, "d", MOMENT, "txt", "one")
    assert replace_note(path, "one", "two")
    assert not replace_note(path, "one", "three")
    assert path.read_text("utf-8") == "two"
    path.unlink()
    assert not replace_note(path, "two", "three")
    assert list(tmp_path.iterdir()) == []


def test_a_note_has_the_permissions_that_the_user_chose(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = create_note(tmp_path, "d", MOMENT, "txt", "x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_existing_notebook_is_used(tmp_path: Path) -> None:
    first = notebook_folder(tmp_path / "dailynote", " 公共/ ")
    assert notebook_folder(tmp_path / "dailynote", "公共") == first == tmp_path / "dailynote" / "公共"


def test_edits_of_the_same_note_by_several_writers_all_hold(tmp_path: Path) -> None:
    note = tmp_path / "a.txt"
    note.write_text("", "utf-8")

    def add(number: int) -> None:
        while True:
            before = note.read_text("utf-8")
            if replace_note(note, before, f"{before}{number}\n"):
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert sorted(map(int, note.read_text("utf-8").split())) == list(range(40))


def test_a_writer_that_never_gets_done_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.0)
    fcntl = pytest.importorskip("fcntl")
    note = tmp_path / "a.txt"
    note.write_text("x", "utf-8")
    holder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(DiaryError, match="another writer"):
            replace_note(note, "x", "y")
    finally:
        os.close(holder)
    assert note.read_text("utf-8") == "x"
    assert replace_note(note, "x", "y")


def test_an_edited_note_keeps_its_permissions(tmp_path: Path) -> None:
    note = tmp_path / "a.txt"
    note.write_text("x", "utf-8")
    note.chmod(0o604)
    assert replace_note(note, "x", "y")
    assert note.stat().st_mode & 0o777 == 0o604


def test_a_notebook_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dailynote").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "dailynote/link").symlink_to(tmp_path / "outside")
    with pytest.raises(DiaryError, match="link"):
        notebook_folder(tmp_path / "dailynote", "link")


def test_the_callers_suffix_stands_behind_the_time_and_is_harmless(tmp_path: Path) -> None:
    made = [
        create_note(tmp_path, "2025.11.27", MOMENT, "md", "x", suffix=suffix).name
        for suffix in ("会议", "../会/议", " . ")
    ]
    stem = "2025-11-27-09_05_07"
    assert made == [f"{stem}-会议.md", f"{stem}-会议_2.md", f"{stem}.md"]
    assert len(create_note(tmp_path, "日" * 300, MOMENT, "md", "x", suffix="长" * 300).name.encode()) <= 255
