"""``vcp init`` as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import command, refused


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("Key", raising=False)


def test_the_next_steps_are_told_in_both_languages(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = tmp_path / "my home"
    ended = command(capsys, "init", home)
    assert (ended.code, ended.err) == (0, "")
    for words in ("+ config.env", "+ agent_map.json", "+ .vcp/server.key", "接下来 / next steps"):
        assert words in ended.out
    assert f"vcp serve --home '{home}'" in ended.out
    assert f"vcp keys node NAME --home '{home}'" in ended.out
    assert (home / ".vcp" / "server.key").read_text().strip() not in ended.out


def test_a_repetition_says_what_was_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command(capsys, "init", tmp_path)
    ended = command(capsys, "init", tmp_path)
    assert ended.code == 0
    assert "  + " not in ended.out
    assert "= config.env (已存在，未改动 / was there, unchanged)" in ended.out


def test_a_file_in_the_way_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be made" in refused(capsys, "init", tmp_path / "file")
