"""The code of in-process plugins: what belongs to it, its digest, its limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.config.dotenv import parse_values
from app.plugins import sources
from app.plugins.discovery import Plugin, PluginSet, discover
from app.plugins.sources import digest, python_sources
from tests.reload.files import DIRECT, add_plugin, save


def found(home: Path, before: PluginSet | None = None) -> Plugin:
    (plugin,) = discover([home / "Plugin"], parse_values, before).plugins
    return plugin


def test_an_edit_of_any_code_file_makes_another_plugin_and_data_does_not(tmp_path: Path) -> None:
    folder = add_plugin(tmp_path, "Inner", **DIRECT)
    save(folder / "main.py", "x = 1")
    save(folder / "parts" / "one.py", "x = 1")
    first = found(tmp_path)
    save(folder / "state.json", "{}")
    save(folder / ".venv" / "a.py", "x = 1")
    assert found(tmp_path) == first
    os.utime(folder / "main.py")
    assert found(tmp_path) == first  # touched, but the same code
    save(folder / "parts" / "one.py", "x = 2")
    assert found(tmp_path) != first
    save(folder / "parts" / "one.py", "x = 1")
    assert found(tmp_path) == first
    (folder / "parts" / "one.py").rename(folder / "parts" / "two.py")
    assert found(tmp_path) != first


def test_scripts_that_are_started_for_each_call_need_no_digest(tmp_path: Path) -> None:
    folder = add_plugin(tmp_path, "Echo")
    save(folder / "main.py", "print(1)")
    first = found(tmp_path)
    save(folder / "main.py", "print(2)")
    assert first.sources == ""
    assert found(tmp_path) == first


def test_links_to_folders_are_not_followed_so_a_loop_has_an_end(tmp_path: Path) -> None:
    save(tmp_path / "a" / "x.py", "")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert python_sources(tmp_path).files == (tmp_path / "a" / "x.py",)


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_FILES", 3), ("MAX_ENTRIES", 6), ("MAX_DEPTH", 1)], ids=["files", "entries", "depth"]
)
def test_a_folder_beyond_a_limit_is_cut_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(sources, limit, value)
    folder = add_plugin(tmp_path, "Inner", **DIRECT)
    for number in range(4):
        save(folder / "a" / "b" / f"{number}.py", "")
    assert python_sources(folder).cut
    (problem,) = discover([tmp_path / "Plugin"], parse_values).problems
    assert str(folder) in problem


def test_more_code_than_is_read_is_told_apart_by_size_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_BYTES", 10)
    save(tmp_path / "big.py", "x" * 100)
    first = digest(tmp_path, (tmp_path / "big.py",))
    assert digest(tmp_path, (tmp_path / "big.py",)) == first
    os.utime(tmp_path / "big.py", ns=(1, 1))
    assert digest(tmp_path, (tmp_path / "big.py",)) != first


def test_files_that_cannot_be_read_have_a_digest_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    save(tmp_path / "x.py", "")
    files = python_sources(tmp_path).files
    with_pipe = digest(tmp_path, files)
    (tmp_path / "pipe.py").unlink()
    assert digest(tmp_path, files) != with_pipe
