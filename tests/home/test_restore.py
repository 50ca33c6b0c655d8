"""Restoring: verified first, never out of the home, nothing overwritten without a word, each file whole."""

from __future__ import annotations

import errno
import io
import json
import os
import sqlite3
import stat
import tarfile
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from app.home.archive import FORMAT, MANIFEST, ArchiveError, checked_name
from app.home.backup import write_backup
from app.home.restore import restore, verified
from tests.home.installations import snapshot, write, write_database


def archive_of(path: Path, files: dict[str, bytes], *more: tarfile.TarInfo, promised: object = None) -> Path:
    """An archive written by hand, as somebody with bad intentions could."""
    manifest = {
        "format": FORMAT,
        "version": "1",
        "made": "2026-01-05T00:00:00+00:00",
        "files": promised
        if promised is not None
        else [
            [name.removeprefix("home/"), len(content), sha256(content).hexdigest()] for name, content in files.items()
        ],
    }
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {**files, MANIFEST: json.dumps(manifest).encode()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o644
            if name == MANIFEST:
                for extra in more:
                    tar.addfile(extra)
            tar.addfile(info, io.BytesIO(content))
    return path


def restored(archive: Path, home: Path, **options: bool) -> list[str]:
    home.mkdir(exist_ok=True)
    return restore(archive, home, verified(archive), **options).restored


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "home/../x",
        "home/a/../../x",
        "/etc/x",
        "home//etc/x",
        "home/",
        "home/./x",
        "other/x",
        "home/a//b",
        "home/a\0b",
        "home",
    ],
)
def test_a_path_that_could_lead_out_of_the_home_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError):
        checked_name(name)
    if "\0" not in name:
        archive = archive_of(tmp_path / "a.tar.gz", {name: b"evil"})
        with pytest.raises(ArchiveError):
            verified(archive)
    assert [path.name for path in tmp_path.iterdir() if path.name != "a.tar.gz"] == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"S"])
def test_links_and_special_files_in_an_archive_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("home/link")
    info.type, info.linkname = kind, "../../outside"
    with pytest.raises(ArchiveError, match="link or a special file"):
        verified(archive_of(tmp_path / "a.tar.gz", {"home/a": b"1"}, info))


def test_a_sparse_file_that_claims_to_be_endless_is_not_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("home/huge")
    info.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(2**60), "GNU.sparse.name": "home/huge"}
    with pytest.raises(ArchiveError, match="link or a special file"):
        verified(archive_of(tmp_path / "a.tar.gz", {"home/a": b"1"}, info))


def test_a_folder_of_the_home_that_is_a_link_to_the_outside_is_not_followed(tmp_path: Path) -> None:
    outside, home = tmp_path / "outside", tmp_path / "home"
    outside.mkdir()
    home.mkdir()
    (home / "Agent").symlink_to(outside, target_is_directory=True)
    archive = archive_of(tmp_path / "a.tar.gz", {"home/b.json": b"1", "home/Agent/a.txt": b"2"})
    with pytest.raises(ArchiveError, match="outside of the home"):
        restored(archive, home, force=True)
    assert list(outside.iterdir()) == []
    assert not (home / "b.json").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"no archive at all",
        lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0xFF]) + data[len(data) // 2 + 1 :],
        lambda data: data[:-6] + bytes([data[-6] ^ 0xFF]) + data[-5:],
    ],
    ids=["half", "empty", "foreign", "one byte", "checksum"],
)
def test_a_damaged_archive_is_refused_before_anything_is_touched(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "old").mkdir()
    for number in range(20):
        write(tmp_path / "old", f"Agent/{number}.txt", os.urandom(400).hex())
    archive = tmp_path / "a.tar.gz"
    write_backup(tmp_path / "old", archive, version="1")
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(ArchiveError, match=r"a\.tar\.gz|damaged"):
        verified(archive)


@pytest.mark.parametrize(
    ("files", "promised", "words"),
    [
        ({"home/a": b"1"}, [["a", 1, sha256(b"2").hexdigest()]], "damaged or missing"),
        ({"home/a": b"1"}, [["a", 2, sha256(b"1").hexdigest()]], "damaged or missing"),
        ({"home/a": b"1"}, [], "not in its manifest"),
        ({}, [["a", 1, sha256(b"1").hexdigest()]], "damaged or missing"),
    ],
)
def test_an_archive_that_is_not_what_its_manifest_says_is_refused(
    tmp_path: Path, files: dict[str, bytes], promised: object, words: str
) -> None:
    with pytest.raises(ArchiveError, match=words):
        verified(archive_of(tmp_path / "a.tar.gz", files, promised=promised))


def test_an_archive_of_something_else_is_told(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("home/a")
        tar.addfile(info)
    with pytest.raises(ArchiveError, match="no backup of vcp"):
        verified(tmp_path / "a.tar.gz")
    with pytest.raises(ArchiveError, match="gone"):
        verified(tmp_path / "gone.tar.gz")


def test_existing_files_are_replaced_only_by_force_and_kept_aside(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(home, "config.env", "mine").chmod(0o640)
    write(home, "Agent/same.txt", "same")
    archive = archive_of(
        tmp_path / "a.tar.gz",
        {"home/config.env": b"theirs", "home/Agent/same.txt": b"same", "home/Agent/new.txt": b"new"},
    )
    before = snapshot(home)
    with pytest.raises(ArchiveError, match=r"1 files exist.*config\.env"):
        restored(archive, home)
    assert snapshot(home) == before
    report = restore(archive, home, verified(archive), force=True)
    assert (report.restored, report.unchanged) == (["config.env", "Agent/new.txt"], 1)
    assert (home / "config.env").read_bytes() == b"theirs"
    assert report.aside is not None
    assert [path.relative_to(report.aside).as_posix() for path in report.aside.rglob("*")] == ["config.env"]
    kept = report.aside / "config.env"
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("mine", 0o640)
    assert stat.S_IMODE((home / ".vcp").stat().st_mode) == 0o700


def test_a_link_in_the_place_of_a_file_is_put_aside_and_its_target_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    outside = write(tmp_path, "outside.env", "mine")
    (home / "config.env").symlink_to(outside)
    archive = archive_of(tmp_path / "a.tar.gz", {"home/config.env": b"theirs"})
    with pytest.raises(ArchiveError, match="exist"):
        restored(archive, home)
    report = restore(archive, home, verified(archive), force=True)
    assert not (home / "config.env").is_symlink()
    assert outside.read_text() == "mine"
    assert report.aside is not None
    assert (report.aside / "config.env").is_symlink()


@pytest.mark.parametrize("there", ["file", "folder"])
def test_a_file_where_a_folder_belongs_or_the_other_way_round_is_never_replaced(tmp_path: Path, there: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    if there == "file":
        write(home, "Agent", "a file")
    else:
        (home / "Agent" / "a.txt").mkdir(parents=True)
    archive = archive_of(tmp_path / "a.tar.gz", {"home/Agent/a.txt": b"1"})
    with pytest.raises(ArchiveError, match="stands where"):
        restored(archive, home, force=True)


def test_what_a_replaced_database_left_beside_it_does_not_spoil_the_restored_one(tmp_path: Path) -> None:
    old, home = tmp_path / "old", tmp_path / "home"
    write_database(old / "VectorStore" / "k.sqlite", 2)
    write_backup(old, tmp_path / "a.tar.gz", version="1")
    write_database(home / "VectorStore" / "k.sqlite", 500)
    for ending in ("-wal", "-shm"):
        write(home, f"VectorStore/k.sqlite{ending}", "of the other database" * 100)
    report = restore(tmp_path / "a.tar.gz", home, verified(tmp_path / "a.tar.gz"), force=True)
    with closing(sqlite3.connect(home / "VectorStore" / "k.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM chunks").fetchone() == (2,)
    assert report.aside is not None
    assert {path.name for path in (report.aside / "VectorStore").iterdir()} == {
        "k.sqlite",
        "k.sqlite-wal",
        "k.sqlite-shm",
    }


def test_a_disk_that_gets_full_leaves_whole_files_only_and_names_the_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(home, "Agent/b.txt", "old")
    archive = archive_of(tmp_path / "a.tar.gz", {"home/Agent/a.txt": b"1", "home/Agent/b.txt": b"new"})
    manifest = verified(archive)
    real = os.fsync
    calls = 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArchiveError, match=r"Agent/b\.txt cannot be restored \(1 files before it were\).*No space"):
        restore(archive, home, manifest, force=True)
    assert {path.name: path.read_text() for path in (home / "Agent").iterdir()} == {"a.txt": "1", "b.txt": "old"}


def test_a_disk_that_has_no_room_is_told_before_anything_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path / "a.tar.gz", {"home/a.json": b"123456"})
    monkeypatch.setattr("shutil.disk_usage", lambda path: _Usage(5))
    with pytest.raises(ArchiveError, match="6 bytes are needed, 5 are free"):
        restored(archive, tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_an_archive_that_changes_after_it_was_verified_is_noticed(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a.tar.gz", {"home/a.json": b"good"})
    manifest = verified(archive)
    archive_of(archive, {"home/a.json": b"evil"})
    (tmp_path / "home").mkdir()
    with pytest.raises(ArchiveError, match="changed while it was read"):
        restore(archive, tmp_path / "home", manifest)
    assert list((tmp_path / "home").iterdir()) == []


def test_rights_beyond_the_usual_ones_are_not_given_back(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    content = b"#!/bin/sh\n"
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo("home/run")
        info.size, info.mode = len(content), 0o6755
        tar.addfile(info, io.BytesIO(content))
        data = json.dumps({"format": FORMAT, "files": [["run", len(content), sha256(content).hexdigest()]]}).encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    restored(archive, tmp_path / "home")
    assert stat.S_IMODE((tmp_path / "home" / "run").stat().st_mode) == 0o755
