"""``vcp backup`` and ``vcp restore`` as a person uses them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.home.lock import own_home
from tests.cli.commands import command, refused
from tests.home.installations import old_installation, write


def test_an_installation_moves_to_another_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    home = old_installation(tmp_path / "old")
    archive = tmp_path / "b.tar.gz"
    with own_home(home, "serve"):  # a server may go on meanwhile
        saved = command(capsys, "backup", archive, "--home", home)
    assert (saved.code, saved.err) == (0, "")
    verified = command(capsys, "restore", archive, "--verify", "--home", tmp_path / "new")
    assert verified.code == 0
    assert not (tmp_path / "new").exists()
    back = command(capsys, "restore", archive, "--home", tmp_path / "new")
    assert (back.code, back.err) == (0, "")
    assert (tmp_path / "new" / "config.env").read_bytes() == (home / "config.env").read_bytes()
    again = command(capsys, "restore", archive, "--home", tmp_path / "new")
    assert again.code == 0
    assert "0 files restored" in again.out


def test_the_file_has_a_name_with_date_and_time_by_default(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    write(tmp_path / "home", "config.env", "Key=1\n")
    monkeypatch.chdir(tmp_path)
    assert command(capsys, "backup", "--home", tmp_path / "home").code == 0
    assert len(list(tmp_path.glob("vcp-backup-????????-??????.tar.gz"))) == 1


def test_files_that_stand_in_the_way_end_a_restore_with_1_and_force_names_where_they_are_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    path = write(tmp_path / "home", "config.env", "Key=1\n")
    archive = tmp_path / "b.tar.gz"
    command(capsys, "backup", archive, "--home", tmp_path / "home")
    path.write_text("Key=2\n")
    ended = command(capsys, "restore", archive, "--home", tmp_path / "home")
    assert (ended.code, "config.env" in ended.err) == (1, True)
    ended = command(capsys, "restore", archive, "--force", "--home", tmp_path / "home")
    assert (ended.code, path.read_text()) == (0, "Key=1\n")
    (kept,) = (tmp_path / "home" / ".vcp" / "replaced").glob("*/config.env")
    assert str(kept.parent) in ended.out


def test_a_home_with_a_running_server_is_not_restored_into(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    write(tmp_path / "home", "config.env", "Key=1\n")
    archive = tmp_path / "b.tar.gz"
    command(capsys, "backup", archive, "--home", tmp_path / "home")
    with own_home(tmp_path / "home", "serve") as ownership:
        ownership.tell("http://127.0.0.1:4711")
        ended = command(capsys, "restore", archive, "--home", tmp_path / "home")
    assert ended.code == 2
    assert str(os.getpid()) in ended.err
    assert "http://127.0.0.1:4711" in ended.err


def test_what_cannot_be_saved_ends_a_backup_with_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    write(tmp_path / "home", "config.env", "Key=1\n")
    archive = tmp_path / "b.tar.gz"
    archive.write_text("")
    ended = command(capsys, "backup", archive, "--home", tmp_path / "home")
    assert (ended.code, "--force" in ended.err) == (1, True)
    assert command(capsys, "backup", archive, "--home", tmp_path / "home", "--force").code == 0
    assert "not a folder" in refused(capsys, "backup", archive, "--home", tmp_path / "gone")


def test_something_that_is_no_backup_changes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, "b.tar.gz", "no archive")
    ended = command(capsys, "restore", tmp_path / "b.tar.gz", "--home", tmp_path / "new")
    assert (ended.code, ended.out) == (1, "")
    assert not (tmp_path / "new").exists()


def test_notebooks_that_lie_elsewhere_are_saved_below_the_home_and_told_outside_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    write(home, "config.env", "KNOWLEDGEBASE_ROOT_PATH=data/notes\n")
    for name in (
        "data/notes/Nova/1.txt",
        "knowledge/B/1.md",
        "memory/rag_tags.json",
        ".vcp/trash/dailynote/1/Nova/2.txt",
    ):
        write(home, name, "x")
    write(home, ".vcp/memory/index.sqlite", "made of the notes")
    command(capsys, "backup", tmp_path / "b.tar.gz", "--home", home)
    assert command(capsys, "restore", tmp_path / "b.tar.gz", "--home", tmp_path / "new").code == 0
    back = sorted(
        path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*") if path.is_file()
    )
    assert back == [".vcp/lock", "config.env", "data/notes/Nova/1.txt", "knowledge/B/1.md", "memory/rag_tags.json"]

    write(tmp_path, "drive/Nova/1.txt", "x")
    write(home, "config.env", f"KNOWLEDGEBASE_ROOT_PATH={tmp_path / 'drive'}\n")
    ended = command(capsys, "backup", tmp_path / "c.tar.gz", "--home", home)
    assert ended.code == 0
    assert f"{tmp_path / 'drive'}: " in ended.err
