"""``vcp memory tags``: a dry run by default, repair with ``--fix`` (memory.md 1.4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import command, refused
from tests.memory.diaries.tag_server import TagServer, serving_tags


@pytest.fixture
def tag_server() -> Iterator[TagServer]:
    with serving_tags() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("API_URL", "API_Key", "TagModel"):
        monkeypatch.delenv(name, raising=False)
    for name, text in {"小克/a.txt": "x\nTag: a, b", "小克/b.txt": "x\nTag：a，b", "公共/c.md": "no tags"}.items():
        path = tmp_path / "dailynote" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def texts(home: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in (home / "dailynote").rglob("*.*")}


def test_without_fix_nothing_is_changed(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    before = texts(home)
    ended = command(capsys, "memory", "tags", "--home", home)
    assert ended.code == 1
    assert "小克/b.txt -> Tag: a, b" in ended.out
    assert "valid: 1" in ended.out and "repairable: 1" in ended.out and "without tags: 1" in ended.out
    assert texts(home) == before
    assert command(capsys, "memory", "tags", "--home", home, "--folder", "小克").out.count("without tags: 0") == 1


def test_fix_repairs_and_asks_the_model_for_what_is_missing(
    capsys: pytest.CaptureFixture[str], home: Path, tag_server: TagServer
) -> None:
    tag_server.say("[[Tag: 河边, 散步]]")
    lines = "".join(f"{name}={value}\n" for name, value in tag_server.settings().items())
    (home / "config.env").write_text(lines, "utf-8")
    ended = command(capsys, "memory", "tags", "--fix", "--wait", "0", "--home", home)
    assert (ended.code, "repaired: 2, not repaired: 0" in ended.out) == (0, True), ended.out
    assert texts(home) == {"a.txt": "x\nTag: a, b", "b.txt": "x\nTag: a, b", "c.md": "no tags\nTag: 河边, 散步"}
    assert tag_server.requests[0]["body"]["messages"][1]["content"] == "no tags"
    assert command(capsys, "memory", "tags", "--home", home).code == 0


def test_without_a_model_the_rest_is_repaired(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    ended = command(capsys, "memory", "tags", "--fix", "--home", home)
    assert ended.code == 1
    assert "not set: TagModel" in ended.out
    assert texts(home)["b.txt"] == "x\nTag: a, b"


def test_a_notebook_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert "Folder '没有' not found" in refused(capsys, "memory", "tags", "--home", home, "--folder", "没有")
    assert "'../x'" in refused(capsys, "memory", "tags", "--home", home, "--folder", "../x")


def test_notebooks_that_need_no_tags_are_left_out_unless_they_are_named(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    for name in ("VCP论坛", "已整理日记", "推理簇"):
        (home / "dailynote" / name).mkdir()
        (home / "dailynote" / name / "x.md").write_text("no tags", "utf-8")
    assert "without tags: 1" in command(capsys, "memory", "tags", "--home", home).out
    assert "without tags: 1" in command(capsys, "memory", "tags", "--home", home, "--folder", "推理簇").out
