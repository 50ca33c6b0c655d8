"""Switching and describing plugins on disk: two writers, the program's folder, ported plugins, broken files."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.config.edited_file import EditConflictError
from app.errors import NotFoundError, VcpError
from app.plugins.discovery import PluginSet, discover
from app.plugins.manifest import BLOCKED_NAME, MANIFEST_NAME
from app.plugins.person_files import OF_THE_PROGRAM, TEXTS_NAME
from app.plugins.plugin_edit import Installed, PluginFolders

NODE = {"pluginType": "service", "entryPoint": {"type": "nodejs", "script": "x.js"}}


class Place:
    """A home and a program with plugins."""

    def __init__(self, folder: Path) -> None:
        self.home, self.program = folder / "home", folder / "program"
        self.home.mkdir()
        self.program.mkdir()
        self.folders = PluginFolders((self.home, self.program), folder / ".vcp" / "lock")

    def plugin(self, root: Path, name: str, **fields: Any) -> Path:
        folder = root / name
        folder.mkdir()
        manifest = {
            "name": name,
            "pluginType": "synchronous",
            "entryPoint": {"command": "x"},
            "description": "old",
            "capabilities": {"invocationCommands": [{"command": "a", "description": "old"}]},
            **fields,
        }
        (folder / MANIFEST_NAME).write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    def found(self) -> PluginSet:
        return discover((self.home, self.program), lambda text: {})

    def one(self, name: str) -> Installed:
        return self.folders.named(self.found(), name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_of_two_who_switch_at_the_same_time_nobody_fails(place: Place) -> None:
    folder = place.plugin(place.home, "P")
    one, found = place.one("P"), place.found()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: place.folders.disable(one, found), range(4)))
    assert sorted(path.name for path in folder.iterdir()) == [BLOCKED_NAME]
    off = place.one("P")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: place.folders.enable(off), range(4)))
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST_NAME]


def test_of_two_who_describe_from_the_same_version_the_second_is_told(place: Place) -> None:
    place.plugin(place.home, "P")
    one = place.one("P")
    version = place.folders.texts_version(one)
    place.folders.describe_command(one, "a", "first", version)
    with pytest.raises(EditConflictError) as told:
        place.folders.describe(one, "second", version)
    assert "first" in told.value.content and place.one("P").manifest is not None


def test_a_plugin_of_the_program_that_is_off_is_described_in_the_home_and_comes_back_with_it(place: Place) -> None:
    place.plugin(place.program, "P")
    place.folders.disable(place.one("P"), place.found())
    block = json.loads((place.home / "P" / BLOCKED_NAME).read_text("utf-8"))
    assert block[OF_THE_PROGRAM] is True and block["description"] == "old"
    off = place.one("P")
    assert not off.enabled and off.of_program
    place.folders.describe(off, "new")
    place.folders.describe_command(off, "a", "new too")
    place.folders.enable(off)
    (plugin,) = place.found().plugins
    assert (plugin.manifest.description, plugin.manifest.commands[0].description) == ("new", "new too")
    assert sorted(path.name for path in (place.home / "P").iterdir()) == [TEXTS_NAME]
    assert json.loads((place.program / "P" / MANIFEST_NAME).read_text("utf-8"))["description"] == "old"


def test_a_plugin_that_the_program_ports_is_switched_by_the_folder_in_the_home(place: Place) -> None:
    """D37: blocking the home's own also blocks the program's, and what is set stands beside the home's."""
    place.plugin(place.program, "P")
    folder = place.plugin(place.home, "P", **NODE)
    one = place.one("P")
    assert one.of_program and one.settings == folder
    place.folders.describe(one, "ported")
    assert place.found().plugins[0].manifest.description == "ported"
    place.folders.write_config(one, "A=1")
    assert (folder / "config.env").read_text() == "A=1"
    place.folders.disable(one, place.found())
    assert place.found().plugins == () and (folder / BLOCKED_NAME).is_file()
    place.folders.enable(place.one("P"))
    assert [plugin.folder.parent.name for plugin in place.found().plugins] == ["program"]


def test_texts_that_nobody_can_read_are_not_overwritten(place: Place) -> None:
    place.plugin(place.program, "P")
    (place.home / "P").mkdir()
    (place.home / "P" / TEXTS_NAME).write_text("{broken")
    with pytest.raises(VcpError, match="cannot be read"):
        place.folders.describe(place.one("P"), "new")
    assert (place.home / "P" / TEXTS_NAME).read_text() == "{broken"


def test_a_plugin_that_is_off_and_broken_is_listed_and_can_be_switched_on(place: Place) -> None:
    (place.home / "P").mkdir()
    (place.home / "P" / BLOCKED_NAME).write_text("{broken")
    (one,) = place.folders.installed(place.found())
    assert (one.name, one.enabled, one.manifest) == ("P", False, None)
    place.folders.enable(one)
    assert (place.home / "P" / MANIFEST_NAME).read_text() == "{broken"


@pytest.mark.parametrize("name", ["", ".", "..", "../P", "a/b", "P\0", "nobody"])
def test_names_lead_nowhere_else(place: Place, name: str) -> None:
    place.plugin(place.home, "P")
    with pytest.raises(NotFoundError):
        place.one(name)


def test_new_settings_are_for_the_owner_alone_and_rights_of_a_file_stay(place: Place) -> None:
    folder = place.plugin(place.home, "P")
    place.folders.write_config(place.one("P"), "A=1")
    assert (folder / "config.env").stat().st_mode & 0o777 == 0o600
    (folder / "config.env").chmod(0o640)
    place.folders.write_config(place.one("P"), "A=2")
    assert (folder / "config.env").stat().st_mode & 0o777 == 0o640
