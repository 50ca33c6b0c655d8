"""The commands on systems that know no Chinese, and in homes that cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.config.home_folders import make_home
from app.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]


def test_an_output_without_chinese_letters_does_not_end_a_command(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("API_URL=http://127.0.0.1:9\n", encoding="utf-8")
    command = [sys.executable, "-m", "app.cli", "tool", "--home", str(tmp_path), "工具"]
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert "\\u5de5\\u5177" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["Plugin", "dailynote"])
def test_a_home_whose_folders_cannot_be_made_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("in the way", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"{name} is no folder"):
        make_home(tmp_path)


def test_a_reader_that_goes_away_ends_a_command_without_a_stack_trace(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "app.cli", "keys", "--home", str(tmp_path)]
    try:
        ended = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")
