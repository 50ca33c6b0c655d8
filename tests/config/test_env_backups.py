"""Copies of config.env: made before each change, private, limited in number, and nothing else is taken for one."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.config.env_backups import FOLDER, KEEP, backups, keep_copy, read_backup
from app.errors import NotFoundError

NOW = datetime(2026, 11, 30, 15, 42, 57, 123_456, UTC)


def test_a_copy_is_named_by_its_moment_and_closed_to_others(tmp_path: Path) -> None:
    name = keep_copy(tmp_path, b"A=1", NOW)
    assert name == "20261130T154257.123Z.env"
    assert (tmp_path / FOLDER / name).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700
    assert read_backup(tmp_path, name) == b"A=1"
    (copy,) = backups(tmp_path)
    assert (copy.size, copy.made) == (3, NOW.replace(microsecond=123_000))


def test_two_copies_of_one_moment_have_two_names(tmp_path: Path) -> None:
    assert keep_copy(tmp_path, b"A=1", NOW) != keep_copy(tmp_path, b"A=2", NOW)
    assert [read_backup(tmp_path, copy.name) for copy in backups(tmp_path)] == [b"A=2", b"A=1"]


def test_what_the_newest_copy_says_is_not_kept_twice(tmp_path: Path) -> None:
    first = keep_copy(tmp_path, b"A=1", NOW)
    assert keep_copy(tmp_path, b"A=1", NOW + timedelta(hours=1)) == first
    assert len(backups(tmp_path)) == 1


def test_the_oldest_copies_go(tmp_path: Path) -> None:
    for count in range(KEEP + 3):
        keep_copy(tmp_path, str(count).encode(), NOW + timedelta(seconds=count))
    found = backups(tmp_path)
    assert len(found) == KEEP
    assert read_backup(tmp_path, found[-1].name) == b"3"


@pytest.mark.parametrize(
    "name",
    [
        "../config.env",
        "x.env",
        "",
        "20261130T154257.123Z.env/..",
        "20269930T154257.123Z.env",
        "20261130T154257.124Z.env",
    ],
)
def test_other_names_are_no_copies(tmp_path: Path, name: str) -> None:
    keep_copy(tmp_path, b"A=1", NOW)
    with pytest.raises(NotFoundError):
        read_backup(tmp_path, name)


def test_links_and_folders_in_the_place_of_copies_are_none(tmp_path: Path) -> None:
    keep_copy(tmp_path, b"A=1", NOW)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    link = tmp_path / FOLDER / "20261130T154258.000Z.env"
    link.symlink_to(secret)
    (tmp_path / FOLDER / "20261130T154259.000Z.env").mkdir()
    assert len(backups(tmp_path)) == 1
    with pytest.raises(NotFoundError):
        read_backup(tmp_path, link.name)


def test_no_copies_at_all(tmp_path: Path) -> None:
    assert backups(tmp_path) == []


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        keep_copy(tmp_path, b"A=1", NOW)
    assert backups(tmp_path) == []
