"""No write is ever lost: twenty processes at one notebook, a kill in mid-write, a disk that refuses (11.1; B34)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from app.config.leftovers import sweep_leftovers
from app.memory.diaries.edits import Edit, edit_diary
from app.memory.diaries.files import create_note, move_note
from app.memory.diaries.notebooks import note_files
from tests.program import environment

PROCESSES = 20

WRITER = """
import sys
from datetime import datetime
from pathlib import Path
from app.memory.diaries.edits import Edit, edit_diary
from app.memory.diaries.files import create_note, notebook_folder
root, number = Path(sys.argv[1]), int(sys.argv[2])
sys.stdin.read()
for turn in range(3):
    create_note(notebook_folder(root, "shared"), "2025-11-27", datetime(2025, 11, 27, 8), "txt", f"{number}-{turn}")
edit_diary(root, Edit(f"<the place of writer {number:02d}>", f"done {number:02d}", "[shared]"))
"""

KILLED = """
import os, sys, time
from pathlib import Path
from app.memory.diaries.files import replace_note
Path.replace = lambda *_: (print("now", flush=True), time.sleep(60))
replace_note(Path(sys.argv[1]), "before", "after")
"""


def test_twenty_processes_at_one_notebook_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "0.txt").write_text("\n".join(f"<the place of writer {n:02d}>" for n in range(PROCESSES)), "utf-8")
    writers = [
        subprocess.Popen(
            (sys.executable, "-c", WRITER, str(tmp_path), str(number)),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        for number in range(PROCESSES)
    ]
    try:
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.close()  # all of them begin
        for writer in writers:
            assert writer.wait(60) == 0, writer.stderr and writer.stderr.read().decode()
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            if writer.stderr is not None:
                writer.stderr.close()
    assert (folder / "0.txt").read_text("utf-8").split("\n") == [f"done {n:02d}" for n in range(PROCESSES)]
    texts = [Path(entry.path).read_text("utf-8") for entry in note_files(folder) if entry.name != "0.txt"]
    assert sorted(texts) == sorted(f"{n}-{turn}" for n in range(PROCESSES) for turn in range(3))
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_kill_between_writing_and_renaming_leaves_the_old_note_and_is_swept(tmp_path: Path) -> None:
    note = tmp_path / "dailynote" / "book" / "a.txt"
    note.parent.mkdir(parents=True)
    note.write_text("before", "utf-8")
    killed = subprocess.Popen((sys.executable, "-c", KILLED, str(note)), stdout=subprocess.PIPE, env=environment())
    with killed:
        assert killed.stdout is not None and killed.stdout.readline() == b"now\n"
        killed.kill()
    assert note.read_text("utf-8") == "before"
    assert len(list(note.parent.iterdir())) == 2
    assert [entry.name for entry in note_files(note.parent)] == ["a.txt"]
    assert sweep_leftovers(tmp_path, time.time() + 7200) == 1
    assert list(note.parent.iterdir()) == [note]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_refuses_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    note = tmp_path / "book" / "a.txt"
    note.parent.mkdir()
    note.write_text("the old text of this note", "utf-8")

    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync" if number == errno.ENOSPC else "open", refuse)
    with pytest.raises(OSError, match=os.strerror(number)):
        create_note(note.parent, "d", datetime(2025, 11, 27), "txt", "new")
    with pytest.raises(OSError, match=os.strerror(number)):
        edit_diary(tmp_path, Edit("the old text of this note", "new", "[book]"))
    monkeypatch.undo()
    assert [path.name for path in note.parent.iterdir()] == ["a.txt"]
    assert note.read_text("utf-8") == "the old text of this note"


def test_a_move_never_replaces_and_keeps_time_and_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(name, "utf-8")
    os.utime(tmp_path / "a/x.txt", ns=(10**18, 10**18))
    assert not move_note(tmp_path / "a/x.txt", tmp_path / "b/x.txt")
    assert (tmp_path / "a/x.txt").read_text() == "a" and (tmp_path / "b/x.txt").read_text() == "b"
    assert move_note(tmp_path / "a/x.txt", tmp_path / "b/y.txt")
    assert (tmp_path / "b/y.txt").stat().st_mtime_ns == 10**18

    def far(source: Path, target: Path) -> None:
        if source == tmp_path / "b/y.txt":
            raise OSError(errno.EXDEV, "another file system")
        link(source, target)

    link = os.link
    monkeypatch.setattr(os, "link", far)
    assert move_note(tmp_path / "b/y.txt", tmp_path / "a/y.txt")
    assert (tmp_path / "a/y.txt").stat().st_mtime_ns == 10**18
    assert not (tmp_path / "b/y.txt").exists()


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_a_move_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "x.txt").write_text("x", "utf-8")
    (tmp_path / "y.txt").write_text("y", "utf-8")
    assert not move_note(tmp_path / "x.txt", tmp_path / "y.txt")
    assert move_note(tmp_path / "x.txt", tmp_path / "z.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["y.txt", "z.txt"]
    with pytest.raises(FileNotFoundError):
        move_note(tmp_path / "x.txt", tmp_path / "w.txt")
    assert not (tmp_path / "w.txt").exists()
