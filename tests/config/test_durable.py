"""Writes that are whole or not at all (B34)."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from app.config.durable import create_atomic, move_atomic, remove_atomic, write_atomic


def test_a_write_replaces_the_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="file modes are those of POSIX")
def test_the_mode_is_the_one_asked_for(tmp_path: Path) -> None:
    write_atomic(tmp_path / "secret", b"x", mode=0o600)
    create_atomic(tmp_path / "other", b"x", mode=0o600)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "real" / "file.txt"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link = tmp_path / "file.txt"
    link.symlink_to(target)
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_link_that_leads_in_a_circle_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("file")
    with pytest.raises(OSError, match="symbolic links"):
        write_atomic(tmp_path / "file", b"new")


def test_a_link_to_something_that_is_no_file_never_makes_a_file_of_it(tmp_path: Path) -> None:
    """A link to a device, followed by a server with the rights of root, would replace the device for everybody."""
    special, link = tmp_path / "special", tmp_path / "file.txt"
    os.mkfifo(special)
    link.symlink_to(special)
    for path in (link, special):
        with pytest.raises(OSError, match="not a regular file"):
            write_atomic(path, b"new")
    assert stat.S_ISFIFO(special.stat().st_mode)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file.txt", "special"]


def test_a_failed_write_leaves_the_old_state_and_no_litter(tmp_path: Path) -> None:
    folder = tmp_path / "taken"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(OSError):
        write_atomic(folder, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "missing" / "file", b"x")


@pytest.mark.parametrize("linked", [True, False])
def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path, linked: bool) -> None:
    """A link to a device would otherwise cost the whole machine its device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = pipe
    if linked:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        write_atomic(path, b"x")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 1 + linked


@pytest.mark.parametrize("name", ["记" * 85, "a" * 255], ids=["chinese", "ascii"])
def test_the_longest_name_that_a_file_can_have_is_written_and_created(tmp_path: Path, name: str) -> None:
    assert create_atomic(tmp_path / name, b"first") is True
    write_atomic(tmp_path / name, b"second")
    assert (tmp_path / name).read_bytes() == b"second"


def test_a_file_is_created_once_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert create_atomic(path, b"first") is True
    assert create_atomic(path, b"second") is False
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_of_several_creators_exactly_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "file"
    won: list[bytes] = []

    def create(content: bytes) -> None:
        if create_atomic(path, content):
            won.append(content)

    threads = [threading.Thread(target=create, args=(bytes([number]) * 10,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [path.read_bytes()]


def test_a_file_system_without_hard_links_still_creates_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "file"
    assert create_atomic(path, b"first") is True
    assert create_atomic(path, b"second") is False
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_claim_without_hard_links_is_taken_back_when_the_file_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="not permitted"):
        create_atomic(tmp_path / "file", b"first")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_creating_leaves_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        create_atomic(tmp_path / "file", b"x")
    with pytest.raises(OSError, match="No space left"):
        write_atomic(tmp_path / "file", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_move_takes_the_place_of_what_is_there_and_both_folders_know_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    source, target = tmp_path / "a" / "file", tmp_path / "b" / "file"
    for path in (source, target):
        path.parent.mkdir()
        path.write_text(path.parent.name)
    move_atomic(source, target)
    assert target.read_text() == "a"
    assert not source.exists()
    assert set(synced) == {source.parent.stat().st_ino, target.parent.stat().st_ino}


@pytest.mark.parametrize("missing", ["source", "folder"])
def test_a_move_of_what_is_not_there_or_to_nowhere_changes_nothing(tmp_path: Path, missing: str) -> None:
    (tmp_path / "there").write_text("x")
    source = tmp_path / ("nothing" if missing == "source" else "there")
    target = tmp_path / ("moved" if missing == "source" else "nowhere/moved")
    with pytest.raises(FileNotFoundError):
        move_atomic(source, target)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_file_is_removed_once_and_one_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    for _ in range(2):
        remove_atomic(path)
    assert not path.exists()


def test_a_link_to_what_is_no_file_is_refused_and_its_target_stays(tmp_path: Path) -> None:
    """A link to a device would otherwise put a file in the device's place, for the whole machine."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        write_atomic(link, b"x")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link"}


def test_a_link_to_nothing_yet_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "later")
    write_atomic(link, b"x")
    assert link.is_symlink()
    assert (tmp_path / "later").read_bytes() == b"x"
