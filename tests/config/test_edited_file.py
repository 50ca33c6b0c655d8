"""Two writers of one file: the second is told, and nothing is lost."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from app.config.edited_file import EditConflictError, FileTooLargeError, fingerprint, read_edited, write_edited


def test_what_was_read_can_be_written_back(tmp_path: Path) -> None:
    path, lock = tmp_path / "a.txt", tmp_path / "lock"
    path.write_bytes("第一行\r\n".encode())
    read = read_edited(path, 1000)
    assert read.text == "第一行\r\n" and read.fingerprint == fingerprint(path.read_bytes())
    written = write_edited(path, read.text + "二", read.fingerprint, lock)
    assert written == read_edited(path, 1000).fingerprint and path.read_bytes() == "第一行\r\n二".encode()


def test_the_second_writer_is_told_and_sees_both_versions(tmp_path: Path) -> None:
    path, lock = tmp_path / "a.txt", tmp_path / "lock"
    path.write_text("old", encoding="utf-8")
    read = read_edited(path, 1000)
    write_edited(path, "hers", read.fingerprint, lock)
    with pytest.raises(EditConflictError) as told:
        write_edited(path, "his", read.fingerprint, lock)
    assert told.value.content == "hers" and told.value.current == fingerprint(b"hers")
    assert told.value.yours == fingerprint(b"his") and path.read_text(encoding="utf-8") == "hers"


def test_a_file_that_is_gone_or_has_come_is_a_conflict_too(tmp_path: Path) -> None:
    path, lock = tmp_path / "a.txt", tmp_path / "lock"
    with pytest.raises(EditConflictError):
        write_edited(path, "x", fingerprint(b"old"), lock)
    assert not path.exists()
    write_edited(path, "new", "", lock)
    with pytest.raises(EditConflictError):
        write_edited(path, "other", "", lock)
    assert write_edited(path, "whatever is there", None, lock) == fingerprint(b"whatever is there")


def test_of_many_writers_with_one_version_exactly_one_wins(tmp_path: Path) -> None:
    path, lock = tmp_path / "a.txt", tmp_path / "lock"
    path.write_text("old", encoding="utf-8")
    expected, won = fingerprint(b"old"), []

    def write(text: str) -> None:
        try:
            write_edited(path, text, expected, lock)
        except EditConflictError:
            return
        won.append(text)

    threads = [threading.Thread(target=write, args=(f"writer {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [path.read_text(encoding="utf-8")]


def test_a_file_that_is_too_large_is_not_read_in_part(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 11)
    with pytest.raises(FileTooLargeError, match=r"a\.txt"):
        read_edited(path, 10)


def test_a_pipe_in_the_place_of_a_file_holds_no_writer_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(OSError, match="not a regular file"):
        write_edited(tmp_path / "a.txt", "text", "a version", tmp_path / "lock")
