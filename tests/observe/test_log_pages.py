"""The log on disk in pieces: whole lines, both directions, files of any size, names that lead nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.errors import NotFoundError
from app.observe import log_pages
from app.observe.log_pages import (
    LogEntry,
    LogFile,
    LogPage,
    LogSearch,
    entries_of,
    log_files,
    log_path,
    page_before,
    read_backward,
    read_forward,
)

NAME = "ServerLog-20251130_120000_000.txt"


def line(number: int, level: str = "INFO", text: str = "消息") -> str:
    return f"[2025-11-30 12:00:00.{number % 1000:03d}+08:00] [{level}] app.turns: {text} {number}\n"


def written(home: Path, text: str | bytes, name: str = NAME) -> Path:
    path = home / "DebugLog" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def texts(page: LogPage) -> list[str]:
    return [entry.text for entry in page.entries]


def test_the_newest_file_is_the_current_one_and_others_are_listed_behind_it(tmp_path: Path) -> None:
    assert log_files(tmp_path) == ()
    for age, name in enumerate([NAME, "ServerLog-20251129_120000_000.txt", "ServerLog-20251128_120000_000.txt"]):
        os.utime(written(tmp_path, "x" * (age + 1), name), (1000 - age, 1000 - age))
    written(tmp_path, "y", "LogInput-20251130_120000_000.txt")
    assert log_files(tmp_path)[0] == LogFile(NAME, 1, 1000)
    assert [file.size for file in log_files(tmp_path)] == [1, 2, 3]
    assert log_path(tmp_path).name == NAME


@pytest.mark.parametrize(
    "name", ["../config.env", "/etc/passwd", "ServerLog-x.txt", NAME + "\n", NAME + "\0", "config.env", "．．/" + NAME]
)
def test_names_that_are_none_of_the_log_are_not_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFoundError):
        log_path(tmp_path, name)


def test_links_folders_and_pipes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "DebugLog"
    folder.mkdir()
    (folder / NAME).symlink_to(tmp_path / "secret")
    with pytest.raises(OSError):
        read_forward(folder / NAME, 0)
    other = folder / "ServerLog-20251130_120000_001.txt"
    os.mkfifo(other)
    with pytest.raises(NotFoundError):
        read_forward(other, 0)
    with pytest.raises(NotFoundError):
        read_backward(folder / "ServerLog-20251130_120000_002.txt", None)


def test_a_line_that_is_still_being_written_is_not_told_yet(tmp_path: Path) -> None:
    path = written(tmp_path, "one\ntwo\nthr")
    piece = read_forward(path, 4)
    assert (piece.text, piece.begin, piece.end, piece.size) == ("two\n", 4, 8, 11)
    assert read_forward(path, 8).text == ""
    assert read_backward(path, None).text == "one\ntwo\n"
    with path.open("a") as file:
        file.write("ee\n")
    assert read_forward(path, 8).text == "three\n"
    assert (read_forward(path, 10**15).text, read_forward(path, -5).begin) == ("", 0)


def test_pieces_follow_each_other_without_a_gap_in_both_directions(tmp_path: Path) -> None:
    whole = "".join(line(number) for number in range(1000))
    path = written(tmp_path, whole)
    read, offset = "", 0
    while (piece := read_forward(path, offset, 1000)).data:
        assert len(piece.data) <= 1000
        read, offset = read + piece.text, piece.end
    assert read == whole
    read, end = "", None
    while end != 0:
        piece = read_backward(path, end, 1000)
        read, end = piece.text + read, piece.begin
    assert read == whole


def test_a_line_longer_than_a_piece_and_bytes_that_are_no_text_hold_nobody_up(tmp_path: Path) -> None:
    path = written(tmp_path, b"x" * 5000 + b"\n\xff\xfe\n" + line(1).encode())
    offset, read = 0, b""
    while (piece := read_forward(path, offset, 1000)).data:
        offset, read = piece.end, read + piece.data
    assert read == path.read_bytes()
    page = page_before(path, None, 10, LogSearch())
    assert texts(page)[-1] == "消息 1"
    assert page.begin == 0
    assert path.read_bytes()[page.entries[-1].offset :].startswith(b"[2025")


def test_entries_have_time_level_and_source_and_a_traceback_belongs_to_its_entry(tmp_path: Path) -> None:
    trace = "Traceback (most recent call last):\n  File x\nValueError: bad\n"
    path = written(tmp_path, "older detail\n" + line(1, "ERROR", "failed") + trace + line(2))
    first, second, third = entries_of(read_forward(path, 0))
    assert (first.level, first.text) == ("", "older detail")
    assert (second.time, second.level, second.source) == ("2025-11-30 12:00:00.001+08:00", "ERROR", "app.turns")
    assert second.text == "failed 1\n" + trace.rstrip("\n")
    assert third.text == "消息 2"


def test_pages_go_back_to_the_beginning_and_keep_tracebacks_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(log_pages.read_backward, "__defaults__", (700,))
    whole = "".join(line(number) + ("Traceback\n" + "  at x\n" * 5) * (number % 3 == 0) for number in range(100))
    path = written(tmp_path, whole)
    before: int | None = None
    seen: list[LogEntry] = []
    while before != 0:
        page = page_before(path, before, 7, LogSearch())
        seen = [*page.entries, *seen]
        before = page.begin
    assert [entry.text.split("\n")[0] for entry in seen] == [f"消息 {number}" for number in range(100)]
    assert all(("Traceback" in entry.text) == (number % 3 == 0) for number, entry in enumerate(seen))


def test_a_search_filters_by_level_and_text_and_ends_after_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = line(0, "ERROR", "Needle") + "".join(line(number) for number in range(1, 3000)) + line(7, "WARNING")
    path = written(tmp_path, whole)
    assert texts(page_before(path, None, 10, LogSearch("WARNING"))) == ["Needle 0", "消息 7"]
    assert texts(page_before(path, None, 10, LogSearch("ERROR", "nEEdle"))) == ["Needle 0"]
    assert texts(page_before(path, None, 10, LogSearch("", "nothing has this"))) == []
    monkeypatch.setattr(log_pages.read_backward, "__defaults__", (10_000,))
    monkeypatch.setattr(log_pages, "MAX_SEARCHED", 30_000)
    page = page_before(path, None, 10, LogSearch("ERROR"))
    assert (page.entries, page.begin > 0) == ((), True)
    while page.begin:
        page = page_before(path, page.begin, 10, LogSearch("ERROR"))
    assert texts(page) == ["Needle 0"]


def test_a_sparse_file_of_half_a_gigabyte_is_never_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    with path.open("wb") as file:
        file.truncate(500 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"".join(line(number).encode() for number in range(100)))
    page = page_before(path, None, 50, LogSearch())
    assert texts(page)[-1] == "消息 99"
    assert len(page.entries) == 50
    assert len(read_forward(path, 0).data) == log_pages.PIECE_BYTES
