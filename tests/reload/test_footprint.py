"""Which files count, that a change of any of them is seen, and that nothing else is looked at (spec 5.11, P93)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from app.reload import footprint
from app.reload.footprint import HOME_FILES, look, matters
from tests.reload.files import add_plugin, save


def changed(home: Path, before: footprint.Footprint, *code: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in look(home, code).changed_since(before)}


def test_a_home_that_does_not_exist_yet_has_no_files_and_its_coming_is_a_change(tmp_path: Path) -> None:
    home = tmp_path / "home"
    before = look(home)
    assert (before.files, before.folders) == ({}, {})
    add_plugin(home, "Echo")
    save(home / "config.env", "A=1")
    assert changed(home, before) == {"config.env", "Plugin/Echo/plugin-manifest.json"}
    assert set(look(home).folders) == {home, home / "Plugin", home / "Plugin" / "Echo"}


@pytest.mark.parametrize("name", HOME_FILES)
def test_each_file_of_the_home_that_is_read_at_a_reload_counts(tmp_path: Path, name: str) -> None:
    before = look(tmp_path)
    save(tmp_path / name, "{}")
    assert changed(tmp_path, before) == {name}


def test_what_a_plugin_writes_into_its_folder_does_not_count(tmp_path: Path) -> None:
    folder = add_plugin(tmp_path, "UserAuth")
    before = look(tmp_path)
    for name in ("code.bin", "cache.json", "generated_lists/x.txt", "node_modules/a/package.json", "store.sqlite-wal"):
        save(folder / name, "data")
    save(folder / "main.py", "print()")  # started anew for each call: nothing has to be read again
    assert changed(tmp_path, before) == set()


def test_the_code_of_in_process_plugins_counts_but_not_what_was_installed_or_compiled_there(tmp_path: Path) -> None:
    folder = add_plugin(tmp_path, "Inner")
    before = look(tmp_path, [folder])
    for name in ("main.py", "parts/deep/one.py"):
        save(folder / name, "x = 1")
    for name in (".venv/lib/a.py", "venv/a.py", "node_modules/b.py", "__pycache__/c.py", "data.json"):
        save(folder / name, "x = 1")
    assert changed(tmp_path, before, folder) == {"Plugin/Inner/main.py", "Plugin/Inner/parts/deep/one.py"}
    assert folder / "parts" / "deep" in look(tmp_path, [folder]).folders


def test_an_edit_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    save(tmp_path / "config.env", "A=1")
    os.utime(tmp_path / "config.env", ns=(1, 1))
    before = look(tmp_path)
    (tmp_path / "config.env").write_text("A=2\n", encoding="utf-8")
    os.utime(tmp_path / "config.env", ns=(1, 1))
    assert changed(tmp_path, before) == {"config.env"}


def test_another_target_of_a_link_and_an_edit_of_the_target_are_changes(tmp_path: Path) -> None:
    """P93, for the settings and for the whole folder of plugins."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    for name in ("one", "two"):
        save(elsewhere / name / "config.env", "A=1")
        add_plugin(elsewhere / name, "Echo")
    (home / "config.env").symlink_to(elsewhere / "one" / "config.env")
    (home / "Plugin").symlink_to(elsewhere / "one" / "Plugin")
    before = look(home)
    assert elsewhere / "one" in before.folders
    save(elsewhere / "one" / "config.env", "A=2")
    assert changed(home, before) == {"config.env"}
    before = look(home)
    for name in ("config.env", "Plugin"):
        (home / name).unlink()
        (home / name).symlink_to(elsewhere / "two" / name)
    assert changed(home, before) == {"config.env", "Plugin/Echo/plugin-manifest.json"}
    assert look(home).folders != before.folders


def test_a_folder_of_the_same_name_has_to_be_watched_anew(tmp_path: Path) -> None:
    folder = add_plugin(tmp_path, "Echo")
    before = look(tmp_path)
    folder.rename(tmp_path / "kept")
    add_plugin(tmp_path, "Echo")
    assert look(tmp_path).folders.keys() == before.folders.keys()
    assert look(tmp_path).folders != before.folders


@pytest.mark.parametrize("spoil", ["loop", "pipe", "folder", "nul"])
def test_odd_files_are_looked_at_without_failing_or_waiting(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "config.env"
    before = look(tmp_path)
    if spoil == "loop":
        path.symlink_to(path)
    elif spoil == "pipe":
        os.mkfifo(path)
    elif spoil == "folder":
        path.mkdir()
    else:
        save(path, "A=\0")
    assert changed(tmp_path, before) == {"config.env"}


def test_a_file_that_shrank_or_vanished_may_be_in_the_middle_of_being_saved(tmp_path: Path) -> None:
    folder = add_plugin(tmp_path, "Echo")
    save(tmp_path / "config.env", "A=123")
    before = look(tmp_path)
    save(tmp_path / "config.env", "A=1234")
    assert not look(tmp_path).shrunk_since(before)
    (tmp_path / "config.env").write_text("", encoding="utf-8")
    assert look(tmp_path).shrunk_since(before)
    save(tmp_path / "config.env", "A=1234")
    shutil.rmtree(folder)
    assert look(tmp_path).shrunk_since(before)


def test_a_blocked_manifest_has_not_vanished(tmp_path: Path) -> None:
    manifest = add_plugin(tmp_path, "Echo") / "plugin-manifest.json"
    blocked = manifest.with_name("plugin-manifest.json.block")
    for old, new in ((manifest, blocked), (blocked, manifest)):
        before = look(tmp_path)
        old.rename(new)
        assert look(tmp_path).changed_since(before) == {old, new}
        assert not look(tmp_path).shrunk_since(before)


def test_the_number_of_plugin_folders_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "MAX_PLUGIN_FOLDERS", 3)
    for number in range(3):
        add_plugin(tmp_path, f"P{number}")
    assert not look(tmp_path).cut
    add_plugin(tmp_path, "P4")
    assert look(tmp_path).cut
    assert len(look(tmp_path).files) == 3


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("config.env", True),
        ("..data", True),
        ("Plugin", True),
        ("Plugin/Wan2.1VideoGen", True),
        ("Plugin/X/plugin-manifest.json.block", True),
        ("Plugin/X/config.env", True),
        ("Plugin/X/parts", True),
        ("Plugin/X/parts/a.py", True),
        ("Plugin/X/cache.json", False),
        ("Plugin/X/code.bin", False),
    ],
)
def test_notifications_about_data_in_a_plugin_are_no_reason_to_look(tmp_path: Path, path: str, expected: bool) -> None:
    assert matters(tmp_path / path, tmp_path) is expected
