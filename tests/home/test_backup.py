"""Backups: what is in them, and that each is whole whatever happens meanwhile."""

from __future__ import annotations

import gzip
import os
import sqlite3
import stat
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.home import backup
from app.home.archive import MANIFEST, ArchiveError, parse_manifest
from app.home.backup import BackupReport, write_backup
from app.home.lock import own_home
from app.home.restore import restore, verified
from app.hub.nodes.key_file import make_node_key
from app.hub.nodes.keys import NodeKeys
from tests.home.installations import old_installation, snapshot, write, write_database


def saved(home: Path, target: Path, **options: bool) -> BackupReport:
    return write_backup(home, target, version="1.2.3", clock=lambda: 1_800_000_000.0, **options)


def members(archive: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(archive) as tar:
        return {info.name: info for info in tar}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return old_installation(tmp_path / "home")


def test_a_backup_has_what_people_made_and_nothing_that_can_be_made_again(home: Path, tmp_path: Path) -> None:
    with own_home(home, "serve"):
        report = saved(home, tmp_path / "b.tar.gz")
    names = {name.removeprefix("home/") for name in members(tmp_path / "b.tar.gz")}
    assert (report.told, report.lost) == ([], 0)
    assert {
        "config.env",
        "agent_map.json",
        "ModelRedirect.json",
        "preprocessor_order.json",
        "ip_blacklist.json",
        "Agent/sub/小克.txt",
        "TVStxt/VarToolList.txt",
        "dailynote/公共/2025-11-27-08_00_00.txt",
        "dailynote/空",
        "knowledge/公司/制度.md",
        "memory/aimemo/short.txt",
        "Plugin/TavilySearch/config.env",
        "Plugin/TavilySearch/plugin-manifest.json",
        "Plugin/MCPO/plugin-manifest.json.block",
        "Plugin/VCPTavern/presets/dailychat.json",
        "Plugin/RAGDiaryPlugin/rag_tags.json",
        "VectorStore/knowledge_base.sqlite",
        "VCPAsyncResults/VideoGen-abc.json",
        "VCPTimedContacts/task-1.json",
        "ToolConfigs/mine.json",
    } <= names
    parts = {part for name in names for part in name.split("/")}
    assert not parts & {"node_modules", "image", "file", "DebugLog", ".file_cache", "server.js", "lock", "owner.json"}
    assert not [name for name in names if name.startswith(".vcp/memory")]
    assert not [name for name in names if name.endswith((".usearch", "-wal", "-shm"))]


def test_pictures_and_files_come_along_when_they_are_asked_for(home: Path, tmp_path: Path) -> None:
    write(home, "Plugin/ImageProcessor/multimodal_cache.json", "{}")
    write(home, ".vcp/plugins/ImageProcessor/transcriptions.sqlite3", "x")
    saved(home, tmp_path / "plain.tar.gz")
    saved(home, tmp_path / "all.tar.gz", with_files=True)
    more = set(members(tmp_path / "all.tar.gz")) - set(members(tmp_path / "plain.tar.gz"))
    assert {
        "home/image/通用表情包/笑.png",
        "home/file/a.txt",
        "home/Plugin/ImageProcessor/multimodal_cache.json",
        "home/.vcp/plugins/ImageProcessor/transcriptions.sqlite3",
    } <= more


def test_notebooks_are_whole_whatever_their_names_are(home: Path, tmp_path: Path) -> None:
    for name in ("cache", "log", "venv", ".git"):
        write(home, f"dailynote/{name}/a.log", "note")
    names = members_of(home, tmp_path)
    assert {f"home/dailynote/{name}/a.log" for name in ("cache", "log", "venv", ".git")} <= names


def members_of(home: Path, tmp_path: Path) -> set[str]:
    saved(home, tmp_path / "b.tar.gz")
    return set(members(tmp_path / "b.tar.gz"))


def test_a_backup_is_for_its_owner_alone_and_replaces_nothing_unasked(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.tar.gz"
    report = saved(home, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert report.size == target.stat().st_size
    with pytest.raises(ArchiveError, match="exists"):
        saved(home, target)
    saved(home, target, replace=True)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["b.tar.gz"]


@pytest.mark.parametrize("linked", [False, True])
def test_a_backup_never_takes_the_place_of_a_pipe_or_device(home: Path, tmp_path: Path, linked: bool) -> None:
    target = tmp_path / "b.tar.gz"
    pipe = tmp_path / "pipe" if linked else target
    os.mkfifo(pipe)
    if linked:
        target.symlink_to(pipe)
    with pytest.raises(ArchiveError, match="no regular file"):
        saved(home, target, replace=True)
    assert pipe.is_fifo()
    assert target.is_fifo()


def test_a_round_trip_gives_everything_back_with_modes_and_empty_folders(home: Path, tmp_path: Path) -> None:
    (home / "config.env").chmod(0o600)
    write(home, "Plugin/Tool/run.sh", "#!/bin/sh\n").chmod(0o755)
    (home / "dailynote" / "空").chmod(0o700)
    target = tmp_path / "b.tar.gz"
    saved(home, target, with_files=True)
    manifest = verified(target)
    assert (manifest.version, manifest.made, manifest.with_files) == ("1.2.3", "2027-01-15T08:00:00+00:00", True)
    new = tmp_path / "new"
    new.mkdir()
    report = restore(target, new, manifest)
    assert len(report.restored) == len(manifest.files)
    old, back = snapshot(home), snapshot(new)
    for name in back:
        if name != "." and not name.endswith(".sqlite"):
            assert back[name][0] == old[name][0], name
            assert back[name][2] == old[name][2], name
            if stat.S_ISREG(back[name][0]):
                assert back[name][1] // 10**9 == old[name][1] // 10**9, name
    assert (new / "dailynote" / "空").is_dir()
    with closing(sqlite3.connect(new / "VectorStore" / "knowledge_base.sqlite")) as database:
        assert database.execute("SELECT content FROM chunks").fetchall() == [("块 0",), ("块 1",), ("块 2",)]


def test_a_database_in_use_is_copied_as_it_was_at_one_moment(home: Path, tmp_path: Path) -> None:
    path = home / "VectorStore" / "knowledge_base.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO chunks (content) VALUES ('committed, in the WAL only')")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO chunks (content) VALUES ('never committed')")
        assert saved(home, tmp_path / "b.tar.gz").lost == 0
        writer.execute("ROLLBACK")
    (tmp_path / "new").mkdir()
    restore(tmp_path / "b.tar.gz", tmp_path / "new", verified(tmp_path / "b.tar.gz"))
    with closing(sqlite3.connect(tmp_path / "new" / "VectorStore" / "knowledge_base.sqlite")) as database:
        texts = [text for (text,) in database.execute("SELECT content FROM chunks")]
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert texts[-1] == "committed, in the WAL only"


def test_a_database_that_stays_locked_is_told_as_missing(home: Path, tmp_path: Path) -> None:
    path = home / "VectorStore" / "locked.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("CREATE TABLE t (x)")
        owner.execute("BEGIN EXCLUSIVE")
        ticks = iter(range(0, 10_000, 20))
        report = write_backup(home, tmp_path / "b.tar.gz", version="1", monotonic=lambda: float(next(ticks)))
    assert report.lost == 1
    assert "VectorStore/locked.sqlite" in dict(report.told)
    assert "home/VectorStore/locked.sqlite" not in members(tmp_path / "b.tar.gz")
    verified(tmp_path / "b.tar.gz")


def test_a_file_that_only_looks_like_a_database_keeps_its_bytes(home: Path, tmp_path: Path) -> None:
    content = b"SQLite format 3\0" + b"and then nothing of the kind" * 100
    (home / "VectorStore" / "odd.sqlite").write_bytes(content)
    assert saved(home, tmp_path / "b.tar.gz").told == []
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        member = tar.extractfile("home/VectorStore/odd.sqlite")
        assert member is not None
        assert member.read() == content


def test_files_that_vanish_meanwhile_are_told_and_the_rest_is_saved(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = backup.contents

    def vanishing(*arguments: object, **options: object) -> Iterator[object]:
        for entry in real(*arguments, **options):  # type: ignore[arg-type]  # handed on as they are
            if entry.name == "Agent/Nova.txt":
                entry.path.unlink()
            yield entry

    monkeypatch.setattr(backup, "contents", vanishing)
    report = saved(home, tmp_path / "b.tar.gz")
    assert [name for name, _ in report.told] == ["Agent/Nova.txt"]
    assert report.lost == 0
    assert "Agent/Nova.txt" not in {file.name for file in verified(tmp_path / "b.tar.gz").files}


def test_a_file_that_grows_while_it_is_read_is_read_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(home, "dailynote/长/a.txt", "x" * 3 * 1024 * 1024)
    grown: list[int] = []
    real = os.fstat

    def growing(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if len(grown) < 2 and status.st_ino == path.stat().st_ino:
            grown.append(1)
            with path.open("a", encoding="utf-8") as file:
                file.write("more")
        return status

    monkeypatch.setattr(os, "fstat", growing)
    report = saved(home, tmp_path / "b.tar.gz")
    monkeypatch.undo()
    assert report.told == []
    by_name = {file.name: file for file in verified(tmp_path / "b.tar.gz").files}
    assert by_name["dailynote/长/a.txt"].size == path.stat().st_size


def test_links_are_kept_as_what_they_lead_to_and_loops_end(home: Path, tmp_path: Path) -> None:
    outside = write(tmp_path, "outside/real.env", "A=1\n")
    (home / "Plugin" / "TavilySearch" / "config.env").unlink()
    (home / "Plugin" / "TavilySearch" / "config.env").symlink_to(outside)
    (home / "dailynote" / "loop").symlink_to(home / "dailynote", target_is_directory=True)
    (home / "Agent" / "gone.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(home / "dailynote" / "pipe")
    report = saved(home, tmp_path / "b.tar.gz")
    found = members(tmp_path / "b.tar.gz")
    assert found["home/Plugin/TavilySearch/config.env"].isreg()
    assert not [name for name, info in found.items() if not (info.isreg() or info.isdir())]
    assert {name for name, _ in report.told} == {"dailynote/loop", "Agent/gone.txt", "dailynote/pipe"}
    assert report.lost == 0


def test_the_backup_itself_is_not_in_it(home: Path, tmp_path: Path) -> None:
    target = home / "dailynote" / "b.tar.gz"
    saved(home, target)
    saved(home, target, replace=True)
    assert "home/dailynote/b.tar.gz" not in members(target)
    assert not [name for name in members(target) if name.endswith(".tmp")]


def test_names_that_are_no_utf8_survive(home: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"dailynote/\xff\xfe.txt")
    write(home, name, "old encoding")
    saved(home, tmp_path / "b.tar.gz")
    (tmp_path / "new").mkdir()
    restore(tmp_path / "b.tar.gz", tmp_path / "new", verified(tmp_path / "b.tar.gz"))
    assert (tmp_path / "new" / name).read_text(encoding="utf-8") == "old encoding"


@pytest.mark.parametrize("after", [0, 20_000])
def test_a_disk_that_is_full_leaves_no_part_of_a_backup(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    write(home, "dailynote/长/a.txt", os.urandom(60_000).hex())
    real = gzip.GzipFile.write
    written = 0

    def full(self: gzip.GzipFile, data: bytes) -> int:
        nonlocal written
        written += len(data)
        if written > after:
            raise OSError(28, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(gzip.GzipFile, "write", full)
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(ArchiveError, match="No space left"):
        saved(home, tmp_path / "b.tar.gz")
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_folder_that_does_not_exist_is_told(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="not written"):
        saved(home, tmp_path / "gone" / "b.tar.gz")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"format":1', '"format":2'),
        lambda text: text.replace('"files":', '"gone":'),
        lambda text: "[]",
        lambda text: "{oops",
        lambda text: '{"format":1,"files":[["a",true,"' + "0" * 64 + '"]]}',
        lambda text: '{"format":1,"files":[["a",1,"zz"]]}',
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(home: Path, tmp_path: Path, damage: Callable[[str], str]) -> None:
    saved(home, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        member = tar.extractfile(MANIFEST)
        assert member is not None
        text = member.read().decode()
    assert parse_manifest(text.encode())
    with pytest.raises(ArchiveError):
        parse_manifest(damage(text).encode())


def test_a_store_without_wal_is_copied_and_left_as_it_was(home: Path, tmp_path: Path) -> None:
    write_database(home / "VectorStore" / "more.sqlite")
    before = snapshot(home)
    saved(home, tmp_path / "b.tar.gz")
    after = snapshot(home)
    assert {name for name in after if not name.endswith(("-wal", "-shm"))} == set(before)
    for name, (mode, _, content) in before.items():
        assert after[name][0] == mode
        assert after[name][2] == content


@pytest.mark.parametrize(("log", "kept"), [(False, True), (True, False)])
def test_a_database_in_a_folder_where_sqlite_may_make_no_files_is_copied_by_its_bytes_if_they_are_complete(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: bool, kept: bool
) -> None:
    path = home / "VectorStore" / "knowledge_base.sqlite"
    if log:
        write(home, "VectorStore/knowledge_base.sqlite-wal", "changes that are not in the database yet")

    def refuse(*arguments: object, **options: object) -> None:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = 1544  # SQLITE_READONLY_DIRECTORY
        raise error

    monkeypatch.setattr(sqlite3, "connect", refuse)
    report = saved(home, tmp_path / "b.tar.gz")
    assert report.lost == (0 if kept else 1)
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        if kept:
            member = tar.extractfile("home/VectorStore/knowledge_base.sqlite")
            assert member is not None
            assert member.read() == path.read_bytes()
        else:
            assert "home/VectorStore/knowledge_base.sqlite" not in tar.getnames()


def test_nodes_keep_their_keys_over_a_backup_and_nothing_of_the_moment_is_in_it(home: Path, tmp_path: Path) -> None:
    key = make_node_key(home, "workshop", 0, tools=("Echo",))
    with own_home(home, "serve") as ownership:
        ownership.tell("http://127.0.0.1:6005")
        names = members_of(home, tmp_path)
    state = {name for name in names if name.startswith("home/.vcp/") and name.count("/") == 2}
    assert "home/.vcp/node_keys.json" in state
    assert not {f"home/.vcp/{name}" for name in ("lock", "owner.json", "node_keys.lock")} & names
    restored = tmp_path / "restored"
    restore(tmp_path / "b.tar.gz", restored, verified(tmp_path / "b.tar.gz"))
    assert NodeKeys(restored, time.monotonic).identify(key) == "workshop"
    assert stat.S_IMODE((restored / ".vcp" / "node_keys.json").stat().st_mode) == 0o600


def test_consents_and_sign_ins_of_mcp_servers_come_back_and_what_is_of_the_moment_does_not(
    home: Path, tmp_path: Path
) -> None:
    files = ("mcp_servers.json", "tool_groups.json")
    state = (".vcp/mcp_tools/a.json", ".vcp/mcp_oauth/b.json", ".vcp/mcp_oauth/port")
    kept = files + state
    for name in (*kept, ".vcp/mcp_tools/lock", ".vcp/mcp_oauth/locks/b", ".vcp/mcp_oauth/pending.json"):
        write(home, name, f"what is in {name}").chmod(0o600)
    saved(home, tmp_path / "b.tar.gz")
    target = tmp_path / "new"
    restore(tmp_path / "b.tar.gz", target, verified(tmp_path / "b.tar.gz"))
    for name in kept:
        assert (target / name).read_text(encoding="utf-8") == f"what is in {name}"
        assert stat.S_IMODE((target / name).stat().st_mode) == 0o600
    found = {path.relative_to(target).as_posix() for path in target.glob(".vcp/mcp_*/**/*") if path.is_file()}
    assert found == set(state)
