"""EmojiListGenerator, UserAuth and DailyNoteGet as the server runs them: a home that is not the program's folder."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.tools.auth_code import AuthCode
from tests.shipped.conftest import REPOSITORY

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(plugin_env: Callable[..., dict[str, str]], tmp_path: Path) -> Run:
    def run(name: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "main.py"],
            cwd=REPOSITORY / "Plugin" / name,
            env=plugin_env(**{"PROJECT_BASE_PATH": str(tmp_path), **settings}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return run


def picture(home: Path, name: str) -> Path:
    path = home / "image" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def lists(home: Path) -> dict[str, str]:
    folder = home / "Plugin" / "EmojiListGenerator" / "generated_lists"
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}


@pytest.mark.parametrize("name", ["EmojiListGenerator", "UserAuth", "DailyNoteGet", "VCPForumLister"])
@pytest.mark.parametrize("base", ["", "relative/home"])
def test_without_a_home_nothing_is_written_anywhere(run: Run, name: str, base: str, tmp_path: Path) -> None:
    before = sorted((REPOSITORY / "Plugin" / name).rglob("*"))
    done = run(name, PROJECT_BASE_PATH=base)
    assert (done.returncode, done.stdout) == (1, "")
    assert "PROJECT_BASE_PATH" in done.stderr
    assert sorted((REPOSITORY / "Plugin" / name).rglob("*")) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["EmojiListGenerator", "UserAuth", "DailyNoteGet", "VCPForumLister"])
def test_another_interpreter_is_told_what_is_missing(run: Run, name: str) -> None:
    done = run(name, PYTHONPATH="", PYTHONNOUSERSITE="1", PYTHONSAFEPATH="1")
    if done.returncode == 0:  # the program is installed in this interpreter, so nothing is missing
        return
    assert "interpreter that runs the server" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_pack_gets_a_list_of_its_pictures(run: Run, tmp_path: Path) -> None:
    for name in (
        "通用表情包/b.PNG",
        "通用表情包/a.jpg",
        "通用表情包/c.jpeg",
        "通用表情包/d.gif",
        "小克表情包/笑 1.png",
    ):
        picture(tmp_path, name)
    for name in ("通用表情包/e.webp", "通用表情包/.f.png", "通用表情包/a|b.png", "通用表情包/a\nb.png", "other/g.png"):
        picture(tmp_path, name)
    picture(tmp_path, "通用表情包/folder.png/h.png")
    picture(tmp_path, "表情包/i.png")
    picture(tmp_path, "loose表情包")
    (tmp_path / "image" / "空表情包").mkdir()
    done = run("EmojiListGenerator")
    assert (done.returncode, done.stderr) == (0, "")
    assert lists(tmp_path) == {"通用表情包": "a.jpg|b.PNG|c.jpeg|d.gif", "小克表情包": "笑 1.png", "空表情包": ""}
    assert not (REPOSITORY / "Plugin" / "EmojiListGenerator" / "__pycache__").exists()


def test_lists_of_packs_that_are_gone_go_and_lists_of_people_stay(run: Run, tmp_path: Path) -> None:
    gone = picture(tmp_path, "旧表情包/a.png")
    picture(tmp_path, "新表情包/a.png")
    run("EmojiListGenerator")
    folder = tmp_path / "Plugin" / "EmojiListGenerator" / "generated_lists"
    (folder / "手写表情包.txt").write_text("x.png", encoding="utf-8")
    before = (folder / "新表情包.txt").stat().st_mtime_ns
    gone.unlink()
    gone.parent.rmdir()
    assert run("EmojiListGenerator").returncode == 0
    assert lists(tmp_path) == {"新表情包": "a.png", "手写表情包": "x.png"}
    assert (folder / "新表情包.txt").stat().st_mtime_ns == before


@pytest.mark.parametrize("record", ["{", "[" * 50_000, '{"a":1}', '["../../../victim表情包", 5, "a/b表情包"]'])
def test_a_spoilt_record_removes_nothing(run: Run, tmp_path: Path, record: str) -> None:
    picture(tmp_path, "新表情包/a.png")
    run("EmojiListGenerator")
    victim = tmp_path / "victim表情包.txt"
    victim.write_text("x", encoding="utf-8")
    folder = tmp_path / "Plugin" / "EmojiListGenerator" / "generated_lists"
    (folder / ".written.json").write_text(record, encoding="utf-8")
    assert run("EmojiListGenerator").returncode == 0
    assert victim.exists()
    assert json.loads((folder / ".written.json").read_text(encoding="utf-8")) == ["新表情包"]


def test_no_pictures_at_all_is_no_fault(run: Run, tmp_path: Path) -> None:
    done = run("EmojiListGenerator")
    assert (done.returncode, done.stdout.strip()) == (0, "表情包列表：0 个 / emoji lists: 0")
    assert lists(tmp_path) == {}


def test_packs_that_lead_out_are_left_out_and_one_that_cannot_be_written_stops_no_other(
    run: Run, tmp_path: Path
) -> None:
    picture(tmp_path, "a表情包/a.png")
    picture(tmp_path, f"{'长' * 82}表情包/b.png")  # a folder may have this name, a file with .txt behind it may not
    picture(tmp_path, "z表情包/c.png")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.png").write_bytes(b"x")
    (tmp_path / "image" / "link表情包").symlink_to(outside)
    (tmp_path / "image" / os.fsdecode(b"\xff" + "表情包".encode())).mkdir()
    done = run("EmojiListGenerator")
    assert done.returncode == 1
    assert "长长" in done.stderr
    assert lists(tmp_path) == {"a表情包": "a.png", "z表情包": "c.png"}


def test_user_auth_writes_into_the_home_and_never_tells_the_code(run: Run, tmp_path: Path) -> None:
    done = run("UserAuth")
    assert (done.returncode, done.stderr) == (0, "")
    path = tmp_path / "Plugin" / "UserAuth" / "code.bin"
    code = AuthCode(tmp_path)()
    assert code is not None
    assert len(code) == 6
    assert code not in done.stdout
    assert not any(character.isdigit() for character in done.stdout)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (REPOSITORY / "Plugin" / "UserAuth" / "__pycache__").exists()
    run("UserAuth")
    assert [entry.name for entry in path.parent.iterdir()] == ["code.bin"]


def test_user_auth_that_cannot_write_says_so_and_keeps_its_exit_code(run: Run, tmp_path: Path) -> None:
    (tmp_path / "Plugin").write_text("a file", encoding="utf-8")
    done = run("UserAuth")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the auth code was not written" in done.stderr


def test_daily_note_get_prints_what_the_placeholder_holds(run: Run, tmp_path: Path) -> None:
    for name, text in {"小克/2026-01-01.txt": "one", "小克/2026-01-02.md": "two", "公共/x.txt": "z" * 50}.items():
        path = tmp_path / "dailynote" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = run("DailyNoteGet")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"公共": "z" * 50, "小克": "one\n\n---\n\ntwo"}
    cut = json.loads(run("DailyNoteGet", DiaryMaxChars="10").stdout)
    assert cut["公共"].endswith("z" * 10)
    assert len(cut["公共"]) < 120


def test_the_forum_is_listed_by_board(run: Run, tmp_path: Path) -> None:
    assert run("VCPForumLister").stdout.startswith("论坛还没有帖子")
    folder = tmp_path / "dailynote" / "VCP论坛"
    folder.mkdir(parents=True)
    (folder / "[读书][第一帖][小克][2025-11-27T07-30-00.000Z][1-abcdef00].md").write_text("# 第一帖\n", "utf-8")
    (folder / "kein Beitrag.md").write_text("x", "utf-8")
    done = run("VCPForumLister", DEFAULT_TIMEZONE="Asia/Shanghai")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "————[读书]————\n[小克] 第一帖 (发布于: 2025-11-27 15:30) (UID: 1-abcdef00)\n"
