"""What of a new configuration is not put in force while the server runs (spec 5.11, P89)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.dotenv import parse
from app.config.settings import NEEDS_RESTART, names
from app.config.snapshot import Config, doubt, load, until_restart


def config(home: Path, text: str, **environ: str) -> Config:
    (home / "config.env").write_text(text, encoding="utf-8")
    return load(home, environ)


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ('A="x y', False),
        ("A='x", False),
        ("A=`x", False),
        ('A="x\nB=1', False),
        ('A="x y"', True),
        ('A="x\ny"', True),
        ("A='a' b", True),
        ('A="you are "X" ok"', True),
        ("A='\"x'", True),
        ("A=it's", True),
        ("A=", True),
        ('A="x" # it\'s', True),
    ],
)
def test_an_opened_quote_that_its_line_does_not_close_is_known(text: str, closed: bool) -> None:
    assert parse(text)[0].closed is closed


def test_a_quote_that_is_not_closed_any_more_keeps_the_old_and_names_the_line(tmp_path: Path) -> None:
    before = config(tmp_path, 'A=1\nVarX="one\ntwo"\n')
    problem = doubt(config(tmp_path, 'A=1\nVarX="one\n'), before)
    assert str(problem).startswith(f"{tmp_path / 'config.env'}:2: VarX: ")


def test_a_quote_that_was_open_before_is_no_reason(tmp_path: Path) -> None:
    before = config(tmp_path, 'VarX="one\n')
    assert doubt(config(tmp_path, 'VarX="one\nB=2\n'), before) is None
    assert doubt(config(tmp_path, 'VarX="other\nB=2\n'), before) is not None


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_a_file_without_settings_keeps_the_old(tmp_path: Path, text: str) -> None:
    before = config(tmp_path, "A=1\n")
    assert str(doubt(config(tmp_path, text), before)).startswith(f"{tmp_path / 'config.env'}: ")
    assert doubt(before, config(tmp_path, text)) is None


def test_a_file_that_is_gone_keeps_the_old(tmp_path: Path) -> None:
    before = config(tmp_path, "A=1\n")
    (tmp_path / "config.env").unlink()
    assert doubt(load(tmp_path, {}), before) is not None


def test_settings_that_need_a_restart_stay_and_are_named(tmp_path: Path) -> None:
    before = config(tmp_path, "HOST=127.0.0.1\nPORT=7000\nShowVCP=false\n")
    now, waiting = until_restart(config(tmp_path, "PORT=8000\nKey=k\nShowVCP=true\nShutdownSeconds=1\n"), before)
    assert set(waiting) == {"PORT", "Key", "ShutdownSeconds"}
    assert (now.settings.port, now.settings.key, now.settings.shutdown_seconds) == (7000, "", 10)
    assert now.settings.show_vcp
    seen = {name: now.environ.get(name) for name in ("PORT", "Key", "ShutdownSeconds", "ShowVCP")}
    assert seen == {"PORT": "7000", "Key": None, "ShutdownSeconds": None, "ShowVCP": "true"}
    assert until_restart(before, before) == (before, ())


def test_every_name_that_needs_a_restart_is_a_setting_and_the_documents_mark_exactly_those() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = [line for line in docs.splitlines() if line.startswith("| `")]
    marked = {line.split("`")[1] for line in rows if "**Restart**" in line}
    assert set(names()) >= NEEDS_RESTART
    assert marked == NEEDS_RESTART
