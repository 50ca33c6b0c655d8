"""Saving config.env: by the version that was read, with a copy, also where it cannot be replaced."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.config.edited_file import EditConflictError, FileTooLargeError
from app.config.env_backups import backups, read_backup
from app.config.env_file import MAX_EDITED_BYTES, read_env, restore_env, write_env
from app.errors import ConfigError, NotFoundError

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def env(home: Path, content: str | bytes) -> Path:
    path = home / "config.env"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_save_keeps_a_copy_of_what_was_there(tmp_path: Path) -> None:
    path = env(tmp_path, "A=1\r\n")
    saved = write_env(tmp_path, "A=2\r\n", read_env(tmp_path).fingerprint, NOW)
    assert path.read_bytes() == b"A=2\r\n"
    assert read_backup(tmp_path, saved.backup) == b"A=1\r\n"
    assert saved.fingerprint == read_env(tmp_path).fingerprint
    assert not saved.in_place


def test_a_first_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    assert read_env(tmp_path).text == ""
    saved = write_env(tmp_path, "Key=x\n", "", NOW)
    assert saved.backup == ""
    assert (tmp_path / "config.env").stat().st_mode & 0o777 == 0o600


def test_the_mode_of_the_file_stays(tmp_path: Path) -> None:
    path = env(tmp_path, "A=1")
    path.chmod(0o660)
    write_env(tmp_path, "A=2", None, NOW)
    assert path.stat().st_mode & 0o777 == 0o660


def test_who_did_not_read_the_present_version_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    path = env(tmp_path, "A=1")
    read = read_env(tmp_path).fingerprint
    path.write_text("A=theirs")
    for expected in (read, ""):
        with pytest.raises(EditConflictError) as conflict:
            write_env(tmp_path, "A=mine", expected, NOW)
        assert conflict.value.content == "A=theirs"
        assert conflict.value.current == read_env(tmp_path).fingerprint
    assert path.read_text() == "A=theirs"
    assert backups(tmp_path) == []
    path.unlink()
    with pytest.raises(EditConflictError) as conflict:
        write_env(tmp_path, "A=mine", read, NOW)
    assert (conflict.value.current, conflict.value.content) == ("", "")


@pytest.mark.parametrize("reason", [errno.EBUSY, errno.EROFS, errno.EACCES])
def test_a_file_that_is_mounted_alone_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    path = env(tmp_path, "A=a longer value than the next one\n")
    replace = Path.replace

    def refused(self: Path, target: Path) -> Path:
        if target == path:
            raise OSError(reason, os.strerror(reason))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refused)
    number = path.stat().st_ino
    saved = write_env(tmp_path, "A=2\n", None, NOW)
    assert saved.in_place
    assert path.read_bytes() == b"A=2\n"
    assert path.stat().st_ino == number
    assert read_backup(tmp_path, saved.backup).startswith(b"A=a longer")
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.endswith(".tmp")] == []


def test_without_a_copy_nothing_is_written(tmp_path: Path) -> None:
    path = env(tmp_path, "A=1")
    (tmp_path / ".vcp").mkdir()
    (tmp_path / ".vcp" / "config_backups").write_text("a file in the place of the folder")
    with pytest.raises(OSError, match="exists"):
        write_env(tmp_path, "A=2", None, NOW)
    assert path.read_text() == "A=1"


def test_a_full_disk_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = env(tmp_path, "A=1")
    sync = os.fsync
    calls = iter(range(100))

    def full(descriptor: int) -> None:
        if next(calls) >= 2:  # the copy and its folder fit
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        write_env(tmp_path, "A=2", None, NOW)
    assert path.read_text() == "A=1"


def test_restoring_brings_a_copy_back_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = env(tmp_path, "A=1\n")
    first = write_env(tmp_path, "A=2\n", None, NOW).backup
    saved = restore_env(tmp_path, first, read_env(tmp_path).fingerprint, NOW)
    assert path.read_bytes() == b"A=1\n"
    assert read_backup(tmp_path, saved.backup) == b"A=2\n"
    with pytest.raises(NotFoundError):
        restore_env(tmp_path, "../config.env", None, NOW)


def test_a_file_of_another_encoding_is_read_as_the_server_reads_it(tmp_path: Path) -> None:
    path = env(tmp_path, "VarName=小克\n".encode("gb18030"))
    file = read_env(tmp_path)
    assert file.text == "VarName=小克\n"
    saved = write_env(tmp_path, file.text, file.fingerprint, NOW)
    assert path.read_text(encoding="utf-8") == "VarName=小克\n"
    assert read_backup(tmp_path, saved.backup) == "VarName=小克\n".encode("gb18030")


def test_bytes_of_no_encoding_and_too_many_are_refused(tmp_path: Path) -> None:
    env(tmp_path, b"A=\xff\xff\xff")
    with pytest.raises(ConfigError):
        read_env(tmp_path)
    env(tmp_path, b"#" * (MAX_EDITED_BYTES + 1))
    with pytest.raises(FileTooLargeError):
        read_env(tmp_path)
    with pytest.raises(FileTooLargeError):
        write_env(tmp_path, "A=1", None, NOW)
    with pytest.raises(FileTooLargeError):
        write_env(tmp_path, "#" * (MAX_EDITED_BYTES + 1), None, NOW)
