"""The lines of the newest log that are about one thing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.observe.log_tail import MAX_LINE_CHARS, TAIL_BYTES, lines_about


def log(home: Path, stamp: str, text: str | bytes, age: int) -> None:
    folder = home / "DebugLog"
    folder.mkdir(exist_ok=True)
    path = folder / f"ServerLog-20260101_{stamp}_000.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (1000 - age, 1000 - age))


def test_the_last_lines_that_name_it_as_a_word_of_the_newest_file(tmp_path: Path) -> None:
    log(tmp_path, "000001", "old Echo\n", age=9)
    log(tmp_path, "000002", "Echo 1\nEchoes\nno\ncall of Echo: 2\nMyEcho\nEcho 3\n", age=1)
    assert lines_about(tmp_path, "Echo", 2) == ("call of Echo: 2", "Echo 3")
    assert lines_about(tmp_path, "Nobody", 2) == ()


@pytest.mark.parametrize("word", ["", "(", "a|b", ".*", "<script>"])
def test_a_name_is_no_pattern(tmp_path: Path, word: str) -> None:
    log(tmp_path, "000001", f"all\n{word}x\n({word})\n", age=1)
    assert all(word and word in line for line in lines_about(tmp_path, word, 9))


def test_of_a_large_file_the_end_is_read_whole_lines_only_and_bytes_that_are_no_text_hurt_nobody(
    tmp_path: Path,
) -> None:
    log(
        tmp_path,
        "000001",
        b"Echo first\n" + b"x" * TAIL_BYTES + b" Echo torn\nEcho \xff\nEcho " + b"y" * 9999 + b"\n",
        age=1,
    )
    found = lines_about(tmp_path, "Echo", 9)
    assert found[0] == "Echo \ufffd" and len(found) == 2 and len(found[1]) == MAX_LINE_CHARS


def test_without_a_log_there_are_no_lines(tmp_path: Path) -> None:
    assert lines_about(tmp_path, "Echo", 9) == ()
