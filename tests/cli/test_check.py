"""``vcp check`` as a person and as a program uses it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from app.cli import main
from app.home.new_home import make_new_home
from tests.cli.commands import command, refused
from tests.home.installations import SECRETS, old_installation, path_with_node, snapshot, write
from tests.program import VCP, environment


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Key", "API_URL", "PORT", "HOST"):
        monkeypatch.delenv(name, raising=False)


def test_a_new_home_is_clean(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_new_home(tmp_path, {})
    ended = command(capsys, "check", "--home", tmp_path, "--json")
    report = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert (report["summary"]["error"], report["summary"]["warning"]) == (0, 0), report["findings"]


def test_an_old_home_is_told_in_both_languages_and_grouped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = old_installation(tmp_path)
    write(home, "Agent/Nova.txt", "{{VarNone}}\n")
    before = snapshot(home)
    ended = command(capsys, "check", "--home", home)
    assert (ended.code, ended.err) == (1, "")
    for words in (
        "== 提示词 / prompts",
        "[错误 / error]  Agent/Nova.txt:1:1  {{VarNone}}",
        "config.env 里没有 VarNone",
        "config.env has no VarNone; it stays as written",
        "已禁用 / blocked (1): MCPO",
        "dailynote/  3 个目录，2 个文件 / 3 folders, 2 files",
        "错误 / error: ",
    ):
        assert words in ended.out
    assert not [value for value in SECRETS.values() if value in ended.out]
    assert snapshot(home) == before


def test_names_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, "agent_map.json", json.dumps({"evil\u001b[2J\n== fake": "gone\u001b[31m.txt"}))
    out = command(capsys, "check", "--home", tmp_path).out
    assert "\x1b" not in out
    assert "\n== fake" not in out
    assert "evil\\x1b[2J\\n== fake" in out


def test_an_error_ends_it_with_1_in_both_forms(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, "config.env", "PORT=many\n")
    assert command(capsys, "check", "--home", tmp_path).code == 1
    ended = command(capsys, "check", "--home", tmp_path, "--json")
    (error,) = [found for found in json.loads(ended.out)["findings"] if found["level"] == "error"]
    assert ended.code == 1
    assert (error["topic"], error["file"], error["line"], error["subject"]) == ("settings", "config.env", 1, "PORT")


def test_a_home_that_does_not_exist_cannot_be_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "is not a folder" in refused(capsys, "check", "--home", tmp_path / "gone")


def test_a_home_that_belongs_to_somebody_else_is_checked_without_writing(tmp_path: Path) -> None:
    """As a process of its own, in a folder in which nothing may be written."""
    (tmp_path / "home").mkdir()
    home = old_installation(tmp_path / "home")
    for path in [*home.rglob("*"), home]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = snapshot(home)
    done = subprocess.run(
        (*VCP, "check", "--home", str(home), "--json"),
        cwd="/",
        env=environment({"PATH": path_with_node(tmp_path / "bin")}),
        capture_output=True,
        encoding="utf-8",
    )
    after = snapshot(home)
    for path in [home, *home.rglob("*")]:
        path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout)["summary"]["error"] == 0
    assert after == before


@pytest.mark.parametrize("name", ["serve", "init", "check", "keys", "backup", "restore", "tool", "demo"])
def test_the_help_of_every_command_is_in_both_languages(capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert any("\u4e00" <= char <= "\u9fff" for char in out)
    assert " / " in out
