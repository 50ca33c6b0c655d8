"""Findings about the folders of an installation, and what is in them (spec 0.2)."""

from __future__ import annotations

from pathlib import Path

from app.config.home_folders import HOME_FOLDERS
from app.home.checks.findings import Level, Topic
from tests.home.checks.looked_at import about, looked_at, told
from tests.home.installations import old_installation, write


def test_the_folders_of_an_old_installation_are_counted_with_what_becomes_of_them(tmp_path: Path) -> None:
    report = looked_at(old_installation(tmp_path))
    counts = {folder.name: (folder.folders, folder.files) for folder in report.folders}
    assert counts["dailynote"] == (3, 2)
    assert counts["VectorStore"] == (0, 2)
    assert counts["Plugin/VCPTavern/presets"] == (0, 1)
    assert "vcp memory import" in next(folder.meaning for folder in report.folders if folder.name == "VectorStore")


def test_folders_that_are_missing_or_none_are_told(tmp_path: Path) -> None:
    write(tmp_path, "Agent", "a file")
    (tmp_path / "Plugin").mkdir()
    found = about(looked_at(tmp_path), Topic.FOLDERS)
    missing = [name for name in HOME_FOLDERS if name not in ("Agent", "Plugin")]
    assert told(found) == [("error", "Agent", ""), *(("note", f"{name}/", "") for name in missing)]


def test_a_notebook_that_is_a_link_to_the_outside_is_told(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "home" / "dailynote").mkdir(parents=True)
    (tmp_path / "home" / "dailynote" / "x").symlink_to(tmp_path / "outside", target_is_directory=True)
    found = about(looked_at(tmp_path / "home"), Topic.FOLDERS, Level.WARNING)
    assert told(found) == [("warning", "dailynote/x", "")]


def test_notebooks_elsewhere_are_counted_and_told_when_they_are_missing(tmp_path: Path) -> None:
    home, drive = tmp_path / "home", tmp_path / "drive"
    write(home, "config.env", "KNOWLEDGEBASE_ROOT_PATH=data/notes\n")
    write(home, "data/notes/Nova/2026-01-05.txt", "x")
    write(home, ".vcp/memory/index.sqlite", "x")
    report = looked_at(home)
    counts = {folder.name: (folder.folders, folder.files) for folder in report.folders}
    assert (counts["data/notes"], counts[".vcp/memory"]) == ((1, 1), (0, 1))
    assert "dailynote" not in counts
    write(home, "config.env", f"KNOWLEDGEBASE_ROOT_PATH={drive}\n")
    found = about(looked_at(home), Topic.FOLDERS, Level.WARNING)
    assert told(found) == [("warning", str(drive), "KNOWLEDGEBASE_ROOT_PATH")]
