"""Plugins are found in the home first, then in the program (spec 5.1, D37, P65, P68)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.plugins.discovery import discover

if TYPE_CHECKING:
    from app.plugins.discovery import PluginSet


def parse_env(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip('"') for key, _, value in pairs}


def plugin(root: Path, folder: str, name: str | None = None, *, blocked: bool = False, **fields: Any) -> Path:
    place = root / folder
    place.mkdir(parents=True, exist_ok=True)
    manifest = {"name": name or folder, "pluginType": "synchronous", "entryPoint": {"command": "x"}, **fields}
    file = "plugin-manifest.json.block" if blocked else "plugin-manifest.json"
    (place / file).write_text(json.dumps(manifest), encoding="utf-8")
    return place


NODE = {"pluginType": "service", "entryPoint": {"type": "nodejs", "script": "x.js"}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program"


def search(*roots: Path, before: PluginSet | None = None, search_path: str | None = None) -> PluginSet:
    return discover(roots, parse_env, before, search_path=search_path)


def folders(found: PluginSet) -> list[tuple[str, str]]:
    return [(item.name, f"{item.folder.parent.name}/{item.folder.name}") for item in found.plugins]


def command(id: str, own: Any) -> dict[str, Any]:
    return {"commandIdentifier": id, "description": "d", "toolName": own}


def test_a_tool_name_that_is_taken_already_is_left_out_and_told(home: Path, program: Path) -> None:
    """D69: a plugin's name beats those of commands, and the first command has it; over reloads and folders too."""
    plugin(home, "a", "Novel", capabilities={"invocationCommands": [command("r", "novel_read"), command("s", "Echo")]})
    plugin(
        home, "b", "Other", capabilities={"invocationCommands": [command("x", "novel_read"), command("y", "no.name")]}
    )
    plugin(program, "c", "Echo")
    first = search(home, program)
    for found in (first, search(home, program, before=first)):
        assert [[one.tool_name for one in item.manifest.commands] for item in found.plugins] == [
            ["novel_read", None],
            [None, None],
            [],
        ]
        allowed = "1 to 64 letters, digits, _ and - are allowed"
        assert found.problems == (
            f"{home}/a/plugin-manifest.json: field toolName: Echo is already a name of Echo; ignored",
            f"{home}/b/plugin-manifest.json: field toolName: novel_read is already a name of Novel; ignored",
            f"{home}/b/plugin-manifest.json: field toolName: no.name is no name: {allowed}; ignored",
        )
        assert set(found.problems) == {text for item in found.plugins for text in item.manifest.complaints}
    (home / "a" / "plugin-manifest.json").unlink()
    again = search(home, program, before=first)
    assert [one.tool_name for one in again.plugins[0].manifest.commands] == ["novel_read", None]


def test_the_home_comes_first_and_folders_by_name(home: Path, program: Path) -> None:
    plugin(home, "b", "Beta")
    plugin(home, "a", "Zeta")
    plugin(program, "a", "Alpha")
    plugin(program, "z", "Beta")
    assert folders(search(home, program)) == [("Zeta", "home/a"), ("Beta", "home/b"), ("Alpha", "program/a")]


def test_the_first_of_two_folders_with_one_name_wins_and_the_other_is_named(home: Path) -> None:
    plugin(home, "DMXDoubaoGen", "DoubaoGen")
    plugin(home, "DoubaoGen", "DoubaoGen")
    found = search(home)
    assert folders(found) == [("DoubaoGen", "home/DMXDoubaoGen")]
    assert len(found.problems) == 1
    assert "home/DoubaoGen/plugin-manifest.json: field name" in found.problems[0]


def test_hiding_a_shipped_plugin_by_ones_own_is_no_problem(home: Path, program: Path) -> None:
    plugin(home, "a", "Same")
    plugin(program, "b", "Same")
    found = search(home, program)
    assert folders(found) == [("Same", "home/a")]
    assert found.problems == ()


def test_a_block_file_disables_and_both_files_mean_enabled(home: Path) -> None:
    plugin(home, "off", "Off", blocked=True)
    plugin(home, "both", "Both", blocked=True)
    plugin(home, "both", "Both")
    found = search(home)
    assert folders(found) == [("Both", "home/both")]
    assert found.blocked == ("Off",)


def test_a_block_in_the_home_blocks_the_programs_plugin_too(home: Path, program: Path) -> None:
    plugin(home, "mine", "Calc", blocked=True)
    plugin(program, "Calc")
    found = search(home, program)
    assert found.plugins == ()
    assert found.blocked == ("Calc",)


def test_a_blocked_folder_beside_an_enabled_one_of_the_same_name_blocks_nothing(home: Path) -> None:
    plugin(home, "a", "Gen", blocked=True)
    plugin(home, "b", "Gen")
    found = search(home)
    assert folders(found) == [("Gen", "home/b")]
    assert found.blocked == ()


def test_a_blocked_manifest_that_cannot_be_read_blocks_by_its_folders_name(home: Path, program: Path) -> None:
    (home / "Calc").mkdir(parents=True)
    (home / "Calc/plugin-manifest.json.block").write_text("{")
    plugin(program, "Calc")
    assert search(home, program).blocked == ("Calc",)


def test_a_broken_manifest_costs_its_own_folder_only(home: Path) -> None:
    plugin(home, "good")
    (home / "bad").mkdir()
    (home / "bad/plugin-manifest.json").write_text('{\n"name": oops}')
    (home / "no-plugin").mkdir()
    (home / "a-file").write_text("x")
    found = search(home)
    assert folders(found) == [("good", "home/good")]
    assert len(found.problems) == 1
    assert "bad/plugin-manifest.json: line 2, column 9" in found.problems[0]


def test_complaints_about_fields_are_problems(home: Path) -> None:
    plugin(home, "odd", maxRunning="many")
    found = search(home)
    assert found.plugins
    assert "field maxRunning" in found.problems[0]


def test_missing_roots_and_the_same_root_twice_are_fine(home: Path, tmp_path: Path) -> None:
    plugin(home, "a")
    assert search(tmp_path / "nothing", home, home).problems == ()


def test_a_half_written_manifest_keeps_the_plugin_it_had(home: Path) -> None:  # P68
    place = plugin(home, "a", "Alpha")
    before = search(home)
    whole = (place / "plugin-manifest.json").read_text()
    (place / "plugin-manifest.json").write_text(whole[:20])
    between = search(home, before=before)
    assert between.plugins == before.plugins
    assert "Alpha stays as it was" in between.problems[0]
    (place / "plugin-manifest.json").write_text(whole.replace("Alpha", "Beta"))
    assert [item.name for item in search(home, before=between).plugins] == ["Beta"]


def test_a_plugin_keeps_its_own_settings_file(home: Path) -> None:  # P65
    place = plugin(home, "a")
    (place / "config.env").write_bytes('\ufeffKEY="value"\r\nOTHER=汉\r\n'.encode())
    assert search(home).plugins[0].own == {"KEY": "value", "OTHER": "汉"}


def test_a_settings_file_that_is_not_utf8_is_a_problem_not_a_crash(home: Path) -> None:
    place = plugin(home, "a")
    (place / "config.env").write_bytes(b"KEY=\xff\n")
    found = search(home)
    assert found.plugins[0].own == {"KEY": "\ufffd"}
    assert "config.env: not everywhere UTF-8" in found.problems[0]


def test_a_settings_file_that_cannot_be_read_is_a_problem(home: Path) -> None:
    place = plugin(home, "a")
    (place / "config.env").mkdir()
    found = search(home)
    assert found.plugins[0].own == {}
    assert "config.env: cannot be read" in found.problems[0]


def test_a_settings_file_that_is_a_pipe_does_not_hold_up_the_start(home: Path) -> None:
    os.mkfifo(plugin(home, "a") / "config.env")
    found = search(home)
    assert found.plugins[0].own == {}
    assert "config.env: cannot be read" in found.problems[0]


@pytest.mark.parametrize("target", ["x" * 300, "itself"], ids=["too long", "circle"])
@pytest.mark.parametrize("link", ["itself", "b/plugin-manifest.json"])
def test_what_cannot_be_looked_at_costs_no_other_plugin(home: Path, target: str, link: str) -> None:
    plugin(home, "a")
    (home / "b").mkdir()
    (home / link).symlink_to(target if target != "itself" else (home / link).name)
    plugin(home, "z")
    found = search(home)
    assert [item.name for item in found.plugins] == ["a", "z"]
    assert "plugin-manifest.json: cannot be read" in found.problems[0]


def test_a_node_module_is_listed_as_not_run_here(home: Path) -> None:  # D37
    plugin(home, "Log", **NODE)
    found = search(home)
    assert not found.plugins[0].runs_here
    assert found.problems == ()


@pytest.mark.parametrize("command", ["node auth.js", "no-such-program"])
def test_a_process_whose_program_is_missing_is_served_by_the_programs_port(
    home: Path, program: Path, tmp_path: Path, command: str
) -> None:  # D37
    place = plugin(home, "UserAuth", entryPoint={"type": "nodejs", "command": command})
    (place / "config.env").write_text("KEY=mine\n")
    shipped = plugin(program, "UserAuth", entryPoint={"command": "python main.py"})
    bare, full = tmp_path / "bare", tmp_path / "full"
    for folder in (bare, full):
        folder.mkdir()
    for name in ("nodejs", "no-such-program"):  # D11: node may be called nodejs
        (full / name).write_text("#!/bin/sh\n")
        (full / name).chmod(0o755)
    (served,) = search(home, program, search_path=str(bare)).plugins
    assert (served.folder, served.own) == (shipped, {"KEY": "mine"})
    (ported,) = search(home, program, search_path=str(bare)).ported
    assert (ported.folder, ported.lacks) == (place, command.split()[0])
    for path in (str(full), None):
        found = search(home, program, search_path=path)
        assert [item.folder for item in found.plugins] == [place]
        assert found.ported == ()


@pytest.mark.parametrize(
    "command", ["python gone.py", "python3 gone.py", "./gone.sh", "cd x && node y", 'node "y', "tool.sh", ""]
)
def test_only_a_program_that_is_nowhere_hands_over_to_the_port(home: Path, program: Path, command: str) -> None:
    place = plugin(home, "X", entryPoint={"command": command})
    (place / "tool.sh").write_text("")
    plugin(program, "X", entryPoint={"command": "python main.py"})
    found = search(home, program, search_path="")
    assert [item.folder for item in found.plugins] == [place]


def test_without_a_port_a_process_whose_program_is_missing_stays_itself(home: Path, program: Path) -> None:
    place = plugin(home, "X", entryPoint={"command": "node x.js"})
    plugin(program, "X", **NODE)
    assert [item.folder for item in search(home, program, search_path="").plugins] == [place]


def test_a_node_module_is_served_by_the_programs_port_with_its_own_settings(home: Path, program: Path) -> None:  # D37
    place = plugin(home, "Log", **NODE)
    (place / "config.env").write_text("KEY=mine\n")
    shipped = plugin(program, "Log")
    (shipped / "config.env").write_text("KEY=shipped\nMORE=1\n")
    (only,) = search(home, program).plugins
    assert only.runs_here
    assert only.folder == shipped
    assert only.own == {"KEY": "mine", "MORE": "1"}


def test_settings_and_texts_of_people_are_taken_for_a_plugin_of_the_program(home: Path, program: Path) -> None:
    """A folder of its name without a manifest in the home; one with a manifest of another plugin is not looked at."""
    plugin(program, "Calc", description="old", capabilities={"invocationCommands": [command("a", None)]})
    (program / "Calc" / "config.env").write_text("A=program\nB=program", encoding="utf-8")
    folder = home / "Calc"
    folder.mkdir(parents=True)
    (folder / "config.env").write_text("A=home", encoding="utf-8")
    texts = {"description": "new", "commands": {"a": "said by people", "gone": "x", "b": 5}}
    (folder / "plugin-texts.json").write_text(json.dumps(texts), encoding="utf-8")
    found = search(home, program)
    (calc,) = found.plugins
    assert (calc.manifest.description, calc.manifest.commands[0].description) == ("new", "said by people")
    assert dict(calc.own) == {"A": "home", "B": "program"} and calc.folder == (program / "Calc").resolve()
    plugin(home, "Calc", "Other")
    assert [(one.name, one.manifest.description) for one in search(home, program).plugins] == [
        ("Other", ""),
        ("Calc", "old"),
    ]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_texts_that_cannot_be_read_cost_only_themselves(home: Path, program: Path, content: bytes) -> None:
    plugin(program, "Calc", description="old")
    (home / "Calc").mkdir(parents=True)
    (home / "Calc" / "plugin-texts.json").write_bytes(content)
    found = search(home, program)
    assert [one.manifest.description for one in found.plugins] == ["old"]
    assert len(found.problems) == 1 and "plugin-texts.json" in found.problems[0]
