from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from app.prompt.files import CACHED_CHARACTERS, CACHED_FILES, TextFiles, contained, read_tail


def later() -> float:
    """A clock for which every file here was saved long ago."""
    return time.time() + 1000


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_that_did_not_change_comes_from_memory(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "text of a")
    files = TextFiles(tmp_path, later)
    assert files.read("a.txt") is files.read("./a.txt")


def test_a_file_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    file = write(tmp_path, "a.txt", "old")
    os.utime(file, (1, 1))
    files = TextFiles(tmp_path, later)
    assert files.read("a.txt") == "old"
    replacement = write(tmp_path, "b.txt", "new")
    os.utime(replacement, (1, 1))
    replacement.replace(file)
    assert files.read("a.txt") == "new"


def test_a_file_that_was_saved_just_now_is_not_kept_in_memory(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "text of a")
    saved = (tmp_path / "a.txt").stat().st_ctime
    files = TextFiles(tmp_path, lambda: saved)
    assert files.read("a.txt") is not files.read("a.txt")


def test_a_removed_file_is_gone(tmp_path: Path) -> None:
    file = write(tmp_path, "a.txt", "text of a")
    files = TextFiles(tmp_path, later)
    assert files.read("a.txt") == "text of a"
    file.unlink()
    with pytest.raises(FileNotFoundError):
        files.read("a.txt")


def test_only_the_last_used_files_are_kept(tmp_path: Path) -> None:
    files = TextFiles(tmp_path, later)
    names = [f"{number}.txt" for number in range(CACHED_FILES + 1)]
    texts = [files.read(write(tmp_path, name, f"text of {name}").name) for name in names]
    assert files.read(names[-1]) is texts[-1]
    assert files.read(names[0]) is not texts[0]


def test_only_so_many_characters_are_kept(tmp_path: Path) -> None:
    files = TextFiles(tmp_path, later)
    texts = [files.read(write(tmp_path, f"{n}.txt", "x" * (CACHED_CHARACTERS // 4)).name) for n in range(5)]
    assert files.read("4.txt") is texts[4]
    assert files.read("0.txt") is not texts[0]


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "/", "/etc/passwd", "..\\x", "."])
def test_paths_that_lead_out_are_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(PermissionError):
        contained(root, path)


def test_a_root_that_is_itself_a_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    write(tmp_path / "real", "a.txt", "a")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert TextFiles(tmp_path / "link").read("a.txt") == "a"


def test_a_hint_finds_names_that_differ_in_case(tmp_path: Path) -> None:
    (tmp_path / "Sub").mkdir()
    write(tmp_path / "Sub", "Nova.TXT", "")
    files = TextFiles(tmp_path)
    assert files.similar("sub\\nova.txt") == "Sub/Nova.TXT"
    assert files.similar("sub/other.txt") is None
    assert files.similar("../x") is None
    assert files.similar("nova.txt/x") is None


def test_the_end_of_a_huge_file_is_read_without_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "huge.txt"
    with file.open("wb") as opened:
        opened.truncate(1 << 30)
        opened.seek(0, os.SEEK_END)
        opened.write("的结尾".encode())
    text, cut = read_tail(file, 3)
    assert (text, cut) == ("的结尾", True)
