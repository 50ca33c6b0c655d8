"""Findings about plugins: what becomes of each, and why (spec 5.1, 5.2, D11, D37, P47, P66, P75)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.config.dotenv import parse_values
from app.config.snapshot import load
from app.home.checks.findings import Installation, Level, Topic
from app.home.checks.plugins import PluginCheck, Status, check_plugins
from app.plugins.discovery import discover
from tests.home.checks.looked_at import ENVIRON, about, looked_at, told
from tests.home.installations import direct, write, write_manifest

HERE = {"entryPoint": {"command": "python main.py", "interpreter": "server"}}


def test_a_tool_name_that_is_taken_or_none_is_a_warning(tmp_path: Path) -> None:
    command = {"commandIdentifier": "c", "description": "d"}
    for name, own in (("A", "go"), ("B", "go"), ("C", "A"), ("D", "a.b")):
        plugin(tmp_path, name, capabilities={"invocationCommands": [command | {"toolName": own}]})
    found = about(looked_at(tmp_path), Topic.PLUGINS)
    assert [(finding.level, finding.file, finding.english.split(";")[0]) for finding in found] == [
        (Level.WARNING, "Plugin/B/plugin-manifest.json", "field toolName: go is already a name of A"),
        (Level.WARNING, "Plugin/C/plugin-manifest.json", "field toolName: A is already a name of A"),
        (
            Level.WARNING,
            "Plugin/D/plugin-manifest.json",
            "field toolName: a.b is no name: 1 to 64 letters, digits, _ and - are allowed",
        ),
    ]


def plugin(home: Path, name: str, **manifest: Any) -> Path:
    """A plugin that can be started."""
    folder = write_manifest(home, name, **{**HERE, **manifest})
    write(home, f"Plugin/{name}/main.py", "")
    return folder


def checked(home: Path, *roots: Path, environ: Mapping[str, str] | None = None, windows: bool = False) -> PluginCheck:
    values = {**ENVIRON, **(environ or {})}
    installation = Installation(load(home, values), values)
    return check_plugins(
        installation,
        discover((home / "Plugin", *roots), parse_values, search_path=values["PATH"]),
        server_python=sys.executable,
        windows=windows,
    )


def statuses(check: PluginCheck) -> dict[str, str]:
    return {state.folder: state.status.value for state in check.states}


def test_each_plugin_has_its_state(tmp_path: Path) -> None:
    home, program = tmp_path / "home", tmp_path / "program"
    home.mkdir()
    plugin(home, "Good")
    plugin(home, "Module", entryPoint={"type": "python", "script": "main.py"}, communication={"protocol": "direct"})
    write_manifest(home, "ImageServer", pluginType="service", **direct("x.js"))
    write_manifest(home, "OnlyNode", pluginType="hybridservice", **direct("x.js"))
    write_manifest(home, "Blocked", blocked=True)
    write_manifest(home, "Twin1", name="Twin", **HERE)
    write(home, "Plugin/Twin1/main.py", "")
    write_manifest(home, "Twin2", name="Twin", **HERE)
    write(home, "Plugin/Broken/plugin-manifest.json", '{\n "name": }')
    write(home, "Plugin/notes/readme.md", "no plugin")
    plugin(program, "ImageServer", pluginType="service")
    plugin(program, "Extra")
    check = checked(home, program / "Plugin")
    assert [(state.folder, state.status.value) for state in check.states] == [
        ("Blocked", "blocked"),
        ("Broken", "broken"),
        ("Good", "runs"),
        ("ImageServer", "port"),
        ("Module", "runs"),
        ("OnlyNode", "not_run_here"),
        ("Twin1", "runs"),
        ("Twin2", "shadowed"),
        ("ImageServer", "program"),
        ("Extra", "program"),
    ]
    served = check.named("ImageServer")
    assert served is not None
    assert served.status is Status.PORT
    assert told([found for found in check.findings if found.level is Level.ERROR]) == [
        ("error", "Plugin/Broken/plugin-manifest.json:2:10", ""),
        ("error", "Plugin/Twin2/plugin-manifest.json", ""),
    ]


def test_the_program_stands_in_for_a_plugin_whose_node_is_missing_and_says_so(tmp_path: Path) -> None:
    home, program = tmp_path / "home", tmp_path / "program"
    home.mkdir()
    write_manifest(home, "UserAuth", pluginType="static", entryPoint={"type": "nodejs", "command": "node auth.js"})
    plugin(program, "UserAuth", pluginType="static")
    check = checked(home, program / "Plugin", environ={"PATH": str(tmp_path)})
    assert [state.status.value for state in check.states] == ["port", "program"]
    (finding,) = check.findings
    assert (finding.level, finding.subject) == (Level.NOTE, "UserAuth")
    assert "node is not on this machine" in finding.english


def test_the_module_of_the_log_is_not_called_missing_since_the_server_does_its_work(tmp_path: Path) -> None:
    for name in ("VCPLog", "Other"):
        entry = {"type": "nodejs", "script": f"{name}.js"}
        write_manifest(
            tmp_path, name, pluginType="service", entryPoint=entry, communication={"protocol": "direct", "timeout": 1}
        )
    check = checked(tmp_path, tmp_path / "no program")
    assert {state.name: state.status for state in check.states} == dict.fromkeys(("VCPLog", "Other"), Status.NOT_HERE)
    told = {finding.subject: finding.english for finding in check.findings}
    assert "the server does its work" in told["VCPLog"]
    assert "no plugin of this program" in told["Other"]


@pytest.mark.parametrize(
    ("entry", "level", "words"),
    [
        ({"command": "no-such-program x"}, "error", "was not found"),
        ({"command": "python gone.py", "interpreter": "server"}, "error", "does not exist"),
        ({"command": 'python "main.py'}, "error", "unclosed quote"),
        ({"command": "Tool.exe"}, "warning", "Windows"),
        ({"command": "Gone.EXE --x"}, "warning", "Windows"),
        ({"command": "./run.sh"}, "error", "may not be executed"),
        ({"type": "python", "script": "gone.py"}, "error", "its module does not exist"),
    ],
)
def test_a_plugin_that_cannot_be_started_is_told_with_the_reason(
    tmp_path: Path, entry: dict[str, str], level: str, words: str
) -> None:
    kind = {"pluginType": "service", "communication": {"protocol": "direct"}} if "script" in entry else {}
    write_manifest(tmp_path, "X", entryPoint=entry, **kind)
    write(tmp_path, "Plugin/X/Tool.exe", "MZ").chmod(0o755)
    write(tmp_path, "Plugin/X/run.sh", "#!/bin/sh\n").chmod(0o644)
    check = checked(tmp_path)
    assert statuses(check) == {"X": "broken"}
    (finding,) = check.findings
    assert (finding.level.value, finding.subject, finding.file) == (level, "X", "Plugin/X/plugin-manifest.json")
    assert words in finding.english


def test_a_program_for_windows_runs_on_windows(tmp_path: Path) -> None:
    write_manifest(tmp_path, "X", entryPoint={"command": "Tool.exe"})
    write(tmp_path, "Plugin/X/Tool.exe", "MZ").chmod(0o755)
    assert statuses(checked(tmp_path, windows=True)) == {"X": "runs"}


def test_settings_without_a_value_are_told_and_those_that_look_like_keys_are_a_warning(tmp_path: Path) -> None:
    schema = {
        "TavilyKey": "string",
        "GIVEN_TOKEN": "string",
        "OWN_SECRET": "string",
        "BLANK_COOKIE": {"type": "string"},
        "MaxTokens": "integer",
        "COUNT": {"type": "integer", "default": 5},
        "Place": "string",
        "DebugMode": "boolean",
        "PORT": "integer",
    }
    folder = plugin(tmp_path, "X", configSchema=schema)
    write(folder, "config.env", "OWN_SECRET=mine\nBLANK_COOKIE=\n").chmod(0o600)
    check = checked(tmp_path, environ={"GIVEN_TOKEN": "t"})
    assert statuses(check) == {"X": "runs"}
    assert [(found.level.value, found.english) for found in check.findings] == [
        (
            "warning",
            "needs keys that are not set: TavilyKey, BLANK_COOKIE (in config.env or the plugin's own config.env)",
        ),
        ("note", "settings without a value: MaxTokens, Place"),
    ]


@pytest.mark.parametrize(
    ("cron", "errors"), [("0 0,10-23 * * *", 0), ("*/10 * * * * *", 0), ("every day", 1), ("99 * * * *", 1)]
)
def test_the_times_of_a_static_plugin_are_read(tmp_path: Path, cron: str, errors: int) -> None:
    """P75."""
    plugin(tmp_path, "X", pluginType="static", refreshIntervalCron=cron)
    assert len(checked(tmp_path).findings) == errors


def test_missing_node_packages_are_told(tmp_path: Path) -> None:
    folder = write_manifest(tmp_path, "X", entryPoint={"command": "node main.js"})
    write(folder, "main.js", "")
    write(folder, "package.json", json.dumps({"dependencies": {"axios": "^1", "@scope/x": "1", "shared": "1"}}))
    (folder / "node_modules" / "@scope" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "shared").mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    write(programs, "node", "#!/bin/sh\n").chmod(0o755)
    (finding,) = checked(tmp_path, environ={"PATH": str(programs)}).findings
    assert finding.file == "Plugin/X/package.json"
    assert "are missing: axios (run npm install" in finding.english


def test_complaints_about_a_manifest_are_warnings_with_file_and_field(tmp_path: Path) -> None:
    """P47."""
    plugin(tmp_path, "X", communication={"protocol": "stdio", "timeout": "soon"}, configSchema=7)
    found = checked(tmp_path).findings
    assert [(finding.level, finding.file) for finding in found] == [
        (Level.WARNING, "Plugin/X/plugin-manifest.json")
    ] * 2
    assert "field communication.timeout" in found[0].english


def test_hostile_manifests_are_findings_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, "Plugin/A/plugin-manifest.json", "[" * 100_000)
    (tmp_path / "Plugin" / "B").mkdir()
    (tmp_path / "Plugin" / "B" / "plugin-manifest.json").write_bytes(b"\xff\xfe\0")
    write_manifest(tmp_path, "C", entryPoint={"command": "python a\0b.py"})
    write(tmp_path, "Plugin/D/package.json", "{}")
    write_manifest(tmp_path, "D", entryPoint={"command": "node \0"})
    check = checked(tmp_path)
    assert set(statuses(check)) == {"A", "B", "C", "D"}
    assert {found.topic for found in check.findings} == {Topic.PLUGINS}


def test_a_home_reached_through_a_link_shows_the_same_paths(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    write_manifest(tmp_path / "real", "X", entryPoint={"command": "no-such-program"})
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    report = looked_at(tmp_path / "link")
    assert told(about(report, Topic.PLUGINS)) == [("error", "Plugin/X/plugin-manifest.json", "X")]
